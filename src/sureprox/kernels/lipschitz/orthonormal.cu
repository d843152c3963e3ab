// Gram-Schmidt for a block of up to four vectors per instance, one block of threads each.
//
// Twice: project on the complement of the earlier vectors (twice), then vector by vector on that of the ones before it
// (twice); a vector that shrinks below a part `drop` of itself becomes zero, the others get length one.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32, MOST = 4, EARLIER = 64;

struct Small {
    float coefficients[EARLIER][MOST];
    float sizes[MOST];
};

// The sum of a[i] b[i], the same in every lane of the warp.
__device__ __forceinline__ float warp_dot(const float* a, const float* b, int size) {
    float sum = 0.f;
    for (int i = threadIdx.x % 32; i < size; i += 32) sum += a[i] * b[i];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    return sum;
}

// v -= E'(E v) for all vectors v (count, size) at once, the rows of E (known, size) being orthonormal
__device__ void project(float* v, const float* E, Small& s, int size, int count, int known) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = warp; row < known; row += WARPS) {
        float sums[MOST] = {};
        for (int i = lane; i < size; i += 32) {
            const float e = E[row * size + i];
#pragma unroll
            for (int k = 0; k < MOST; ++k) sums[k] += k < count ? e * v[k * size + i] : 0.f;
        }
#pragma unroll
        for (int k = 0; k < MOST; ++k) {
            for (int apart = 16; apart > 0; apart /= 2) sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], apart);
            if (lane == 0) s.coefficients[row][k] = sums[k];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += THREADS) {
        float left[MOST] = {};
        for (int row = 0; row < known; ++row) {
            const float e = E[row * size + i];
#pragma unroll
            for (int k = 0; k < MOST; ++k) left[k] += e * s.coefficients[row][k];
        }
        for (int k = 0; k < count; ++k) v[k * size + i] -= left[k];
    }
    __syncthreads();
}

// block (batch, count, size), instances `apart` numbers from each other; earlier: for each instance, `room` numbers from
// the one before, `known` rows of `size` -> out: the new rows, as far from each other as earlier.
// Where these are not null: scale (batch), by which block is divided if it was made from known rows; images, like out,
// what is then given; scaled (batch, count, size), the new rows divided by scale. Without out nothing else is made.
extern "C" __global__ void __launch_bounds__(THREADS)
orthonormal(const float* block, const float* scale, const float* earlier, float* out, float* images, float* scaled,
            int size, int count, int known, int apart, int room, double first_drop, double second_drop) {
    SHARED_BYTES(raw)
    Small& s = *reinterpret_cast<Small*>(raw);
    float* v = reinterpret_cast<float*>(raw + sizeof(Small));
    const int warp = threadIdx.x / 32;
    const long long instance = blockIdx.x;
    const float by = scale != nullptr ? scale[instance] : 1.f, of_block = known > 0 ? by : 1.f;
    for (int entry = threadIdx.x; entry < size * count; entry += THREADS) {
        v[entry] = block[instance * apart + entry] / of_block;
        if (images != nullptr) images[instance * room + entry] = v[entry];
    }
    __syncthreads();
    if (out == nullptr) return;
    for (int round = 0; round < 2; ++round) {
        if (warp < count) {
            float square = warp_dot(v + warp * size, v + warp * size, size);
            s.sizes[warp] = sqrtf(square);
        }
        __syncthreads();
        if (known > 0)
            for (int time = 0; time < 2; ++time) project(v, earlier + instance * room, s, size, count, known);
        for (int k = 0; k < count; ++k) {
            for (int time = 0; time < 2 && k > 0; ++time) {
                if (warp < k) {
                    float product = warp_dot(v + warp * size, v + k * size, size);
                    s.coefficients[warp][0] = product;
                }
                __syncthreads();
                for (int i = threadIdx.x; i < size; i += THREADS) {
                    float left = 0.f;
                    for (int j = 0; j < k; ++j) left += s.coefficients[j][0] * v[j * size + i];
                    v[k * size + i] -= left;
                }
                __syncthreads();
            }
            float norm = sqrtf(warp_dot(v + k * size, v + k * size, size));
            bool keep = norm > (float)(round == 0 ? first_drop : second_drop) * s.sizes[k];
            __syncthreads();
            for (int i = threadIdx.x; i < size; i += THREADS) v[k * size + i] = keep ? v[k * size + i] / norm : 0.f;
            __syncthreads();
        }
    }
    for (int entry = threadIdx.x; entry < size * count; entry += THREADS) {
        out[instance * room + entry] = v[entry];
        if (scaled != nullptr) scaled[instance * size * count + entry] = v[entry] / by;
    }
}
