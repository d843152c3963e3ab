// A'(A x - b) and |A x - b|^2 / 2 for a batch of matrices, each read once from memory.
//
// Block (s, i) brings rows s R, ..., s R + R - 1 of matrix i into shared memory, and forms the products with A and then
// those with A' from there. What the blocks of one matrix return is to be added up.
//
// Compile-time: CHUNKS = ceil(n / 128), how many groups of four columns a lane holds of a row.

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

// A (batch, m, n), x (batch, n), b (batch, m) or null -> partial (blocks, batch, n + 4): n products with A', the value,
// three zeros. n is a multiple of 4; shared memory holds R rows, R numbers and THREADS groups of four.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
normal_map(const float* A, const float* x, const float* b, float* partial, int batch, int m, int n, int R) {
    SHARED_BYTES(raw)
    const int columns = n / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4* tile = reinterpret_cast<float4*>(raw);
    float4* sums = tile + R * columns;
    float* z = reinterpret_cast<float*>(sums + THREADS);
    const int instance = blockIdx.y, first = blockIdx.x * R, rows = min(R, m - first);
    const float4* matrix = reinterpret_cast<const float4*>(A + ((long long)instance * m + first) * n);
    const float4* point = reinterpret_cast<const float4*>(x + (long long)instance * n);
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);

    for (int place = threadIdx.x; place < rows * columns; place += THREADS) fetch(tile + place, matrix + place);
    float4 own[CHUNKS];
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k) own[k] = lane + 32 * k < columns ? point[lane + 32 * k] : zero;
    arrived();
    __syncthreads();
    for (int row = warp; row < rows; row += WARPS) {
        float sum = 0.f;
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            if (lane + 32 * k < columns) sum += dot(tile[row * columns + lane + 32 * k], own[k]);
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        if (lane == 0) z[row] = sum - (b != nullptr ? b[(long long)instance * m + first + row] : 0.f);
    }
    __syncthreads();

    float* to = partial + ((long long)blockIdx.x * batch + instance) * (n + 4);
    const int groups = columns < THREADS ? THREADS / columns : 1;  // that share the rows between them
    const int group = threadIdx.x / columns;
    for (int column = columns < THREADS ? threadIdx.x % columns : threadIdx.x; column < columns; column += THREADS) {
        float4 sum = zero;
        if (columns >= THREADS || group < groups)
            for (int row = columns < THREADS ? group : 0; row < rows; row += groups)
                add(sum, tile[row * columns + column], z[row]);
        if (groups == 1) reinterpret_cast<float4*>(to)[column] = sum;
        else sums[threadIdx.x] = sum;
    }
    if (groups > 1) {
        __syncthreads();
        if (threadIdx.x < columns) {
            float4 sum = sums[threadIdx.x];
            for (int other = 1; other < groups; ++other) add(sum, sums[other * columns + threadIdx.x], 1.f);
            reinterpret_cast<float4*>(to)[threadIdx.x] = sum;
        }
    }
    if (warp == WARPS - 1) {
        float value = 0.f;
        for (int row = lane; row < rows; row += 32) value += z[row] * z[row];
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
        if (lane == 0) reinterpret_cast<float4*>(to + n)[0] = make_float4(0.5f * value, 0.f, 0.f, 0.f);
    }
}
