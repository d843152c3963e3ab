// Gram-Schmidt for a block of up to four vectors per instance, one block of threads each.
//
// Twice: project on the complement of the earlier vectors (twice), then vector by vector on that of the ones before it
// (twice); a vector that shrinks below a part `drop` of itself becomes zero, the others get length one.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32, MOST = 4, EARLIER = 64;

struct Small {
    float products[WARPS][EARLIER][MOST];  // one part per warp
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

// v -= E (E' v) for all vectors v (count, size) at once, E (size, known) with rows `stride` apart
__device__ void project(float* v, const float* E, Small& s, int size, int count, int known, int stride) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[2][MOST] = {};
    for (int i = warp; i < size; i += WARPS)
        for (int half = 0; half < 2; ++half) {
            float e = lane + 32 * half < known ? E[(long long)i * stride + lane + 32 * half] : 0.f;
            for (int k = 0; k < MOST; ++k) sums[half][k] += k < count ? e * v[k * size + i] : 0.f;
        }
    for (int half = 0; half < 2; ++half)
        for (int k = 0; k < MOST; ++k) s.products[warp][lane + 32 * half][k] = sums[half][k];
    __syncthreads();
    for (int entry = threadIdx.x; entry < known * MOST; entry += THREADS) {
        float sum = 0.f;
        for (int w = 0; w < WARPS; ++w) sum += s.products[w][entry / MOST][entry % MOST];
        s.coefficients[entry / MOST][entry % MOST] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += THREADS) {
        float left[MOST] = {};
        for (int j = 0; j < known; ++j)
            for (int k = 0; k < MOST; ++k) left[k] += E[(long long)i * stride + j] * s.coefficients[j][k];
        for (int k = 0; k < count; ++k) v[k * size + i] -= left[k];
    }
    __syncthreads();
}

// block (batch, size, count), earlier (batch, size, known): rows `stride` apart, instances `apart` -> out like block
extern "C" __global__ void __launch_bounds__(THREADS)
orthonormal(const float* block, const float* earlier, float* out, int size, int count, int known, int stride,
            int apart, double first_drop, double second_drop) {
    SHARED_BYTES(raw)
    Small& s = *reinterpret_cast<Small*>(raw);
    float* v = reinterpret_cast<float*>(raw + sizeof(Small));
    const int warp = threadIdx.x / 32;
    const long long instance = blockIdx.x;
    for (int entry = threadIdx.x; entry < size * count; entry += THREADS)
        v[(entry % count) * size + entry / count] = block[instance * size * count + entry];
    __syncthreads();
    for (int round = 0; round < 2; ++round) {
        if (warp < count) {
            float square = warp_dot(v + warp * size, v + warp * size, size);
            s.sizes[warp] = sqrtf(square);
        }
        __syncthreads();
        if (known > 0)
            for (int time = 0; time < 2; ++time)
                project(v, earlier + instance * apart, s, size, count, known, stride);
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
    for (int entry = threadIdx.x; entry < size * count; entry += THREADS)
        out[instance * size * count + entry] = v[(entry % count) * size + entry / count];
}
