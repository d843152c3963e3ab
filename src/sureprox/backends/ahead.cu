// For K points of every instance: z = A x - b, w = z + momentum (z - z_before) and A'w, each matrix read once.
//
// As in normal.cu, block (s, i) brings rows s R, ..., s R + R - 1 of matrix i into shared memory, and forms the products
// with A and then those with A' from there.
//
// Compile-time: CHUNKS = ceil(n / 128), POINTS = K.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];

// Copies that need no registers on their way, so that a whole tile of A can be under way at a time.
__device__ __forceinline__ void fetch(float4* to, const float4* from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
}
__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32;

__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ __forceinline__ void add(float4& sum, float4 a, float by) {
    sum.x += a.x * by, sum.y += a.y * by, sum.z += a.z * by, sum.w += a.w * by;
}

// A (batch, m, n), x (batch, K, n), before (batch, K, m), momentum (batch, K), b (batch, m)
// -> z and w (batch, K, m), partial (blocks, batch, K, n), to be added up over the blocks.
// n is a multiple of 4; shared memory holds R rows, R K numbers and THREADS groups of four.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
ahead(const float* A, const float* x, const float* before, const float* momentum, const float* b, float* z, float* w,
      float* partial, int batch, int m, int n, int R) {
    SHARED_BYTES(raw)
    const int columns = n / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4* tile = reinterpret_cast<float4*>(raw);
    float4* sums = tile + R * columns;
    float* slope = reinterpret_cast<float*>(sums + THREADS);
    const int instance = blockIdx.y, first = blockIdx.x * R, rows = min(R, m - first);
    const float4* matrix = reinterpret_cast<const float4*>(A + ((long long)instance * m + first) * n);
    const float4* points = reinterpret_cast<const float4*>(x + (long long)instance * POINTS * n);
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);

    for (int place = threadIdx.x; place < rows * columns; place += THREADS) fetch(tile + place, matrix + place);
    float4 own[POINTS][CHUNKS];
#pragma unroll
    for (int p = 0; p < POINTS; ++p)
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            own[p][k] = lane + 32 * k < columns ? points[p * columns + lane + 32 * k] : zero;
    arrived();
    __syncthreads();
    for (int row = warp; row < rows; row += WARPS) {
        float sum[POINTS];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) sum[p] = 0.f;
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            const float4 a = lane + 32 * k < columns ? tile[row * columns + lane + 32 * k] : zero;
#pragma unroll
            for (int p = 0; p < POINTS; ++p) sum[p] += dot(a, own[p][k]);
        }
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) sum[p] += __shfl_xor_sync(0xffffffffu, sum[p], apart);
            if (lane == p) {
                const long long place = ((long long)instance * POINTS + p) * m + first + row;
                const float here = sum[p] - b[(long long)instance * m + first + row];
                const float there = here + momentum[instance * POINTS + p] * (here - before[place]);
                z[place] = here;
                w[place] = there;
                slope[row * POINTS + p] = there;
            }
        }
    }
    __syncthreads();

    float4* to = reinterpret_cast<float4*>(partial + ((long long)blockIdx.x * batch + instance) * POINTS * n);
    const int groups = columns < THREADS ? THREADS / columns : 1;  // that share the rows between them
    const int group = columns < THREADS ? threadIdx.x / columns : 0;
    for (int start = 0; start < columns; start += THREADS) {
        const int column = columns < THREADS ? threadIdx.x % columns : start + threadIdx.x;
        float4 sum[POINTS];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) sum[p] = zero;
        if (group < groups && column < columns)
            for (int row = group; row < rows; row += groups) {
                const float4 a = tile[row * columns + column];
#pragma unroll
                for (int p = 0; p < POINTS; ++p) add(sum[p], a, slope[row * POINTS + p]);
            }
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {
            if (groups == 1) {
                if (column < columns) to[p * columns + column] = sum[p];
                continue;
            }
            __syncthreads();
            sums[threadIdx.x] = sum[p];
            __syncthreads();
            if (threadIdx.x < columns) {
                float4 total = sums[threadIdx.x];
                for (int other = 1; other < groups; ++other) add(total, sums[other * columns + threadIdx.x], 1.f);
                to[p * columns + threadIdx.x] = total;
            }
        }
    }
}
