// For POINTS points of an instance, from one read of its matrix: the products with A, what `Slopes` makes of them, and
// the products of that with A'.
//
// Block (i, s) does so for rows s R, ..., s R + R - 1 of matrix i. They come into shared memory in stages of ROWS:
// STAGES - 1 are on their way while the block works on one. What the blocks of one matrix return is to be added up.
//
// Compile-time: POINTS; CHUNKS = ceil(n / 128), how many groups of four columns a lane holds of a row; ROWS, a multiple
// of WARPS; STAGES >= 2. n is a multiple of 4, at most 4 THREADS; A and x lie at multiples of 16 bytes.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];

// Copies that need no registers on their way. `arrived`: all but the `LATER` last groups of this thread's are there.
__device__ __forceinline__ void fetch(float4* to, const float4* from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> __device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32, TURNS = ROWS / WARPS;

__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ __forceinline__ void add(float4& sum, float4 a, float by) {
    sum.x += a.x * by, sum.y += a.y * by, sum.z += a.z * by, sum.w += a.w * by;
}

// A (batch, m, n), x (batch, POINTS, n) -> to (POINTS, n), this block's part of the products with A'.
// slopes.before(row, p) is asked for early, slopes.after(row, p, product, that) returns what A' is multiplied with, in
// lane p of the row's warp. Shared memory holds STAGES ROWS rows, THREADS groups of four and ROWS POINTS.
template <class Slopes>
__device__ __forceinline__ void products(const float* A, const float* x, float* to, int m, int n, int R,
                                         Slopes& slopes) {
    SHARED_BYTES(raw)
    const int columns = n / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4* tiles = reinterpret_cast<float4*>(raw);
    float4* sums = tiles + STAGES * ROWS * columns;
    float* slope = reinterpret_cast<float*>(sums + THREADS);
    const long long instance = blockIdx.x;
    const int first = blockIdx.y * R, rows = min(R, m - first);
    const float4* matrix = reinterpret_cast<const float4*>(A + (instance * m + first) * n);
    const float4* points = reinterpret_cast<const float4*>(x + instance * POINTS * n);
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);

    auto ask = [&](int stage) {  // an empty group beyond the last row, so that counting groups counts stages
        const int begin = stage * ROWS * columns, count = min(ROWS, rows - stage * ROWS) * columns;
        float4* tile = tiles + stage % STAGES * ROWS * columns;
        for (int place = threadIdx.x; place < count; place += THREADS) fetch(tile + place, matrix + begin + place);
        end_group();
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) ask(stage);
    float4 own[POINTS][CHUNKS], total[POINTS];
#pragma unroll
    for (int p = 0; p < POINTS; ++p) {
        total[p] = zero;
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            own[p][k] = lane + 32 * k < columns ? points[p * columns + lane + 32 * k] : zero;
    }
    const int groups = THREADS / columns;  // that share the rows of a stage between them
    const int group = threadIdx.x / columns, column = threadIdx.x % columns;

    for (int stage = 0; stage * ROWS < rows; ++stage) {
        const int here = min(ROWS, rows - stage * ROWS), above = first + stage * ROWS;
        decltype(slopes.before(0, 0)) known[TURNS];
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn)
            if (lane < POINTS && turn * WARPS + warp < here)
                known[turn] = slopes.before(above + turn * WARPS + warp, lane);
        arrived<STAGES - 2>();
        __syncthreads();  // all copies of this stage are there, and nobody reads the one before any more
        ask(stage + STAGES - 1);
        const float4* tile = tiles + stage % STAGES * ROWS * columns;
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int row = turn * WARPS + warp;
            float sum[POINTS];  // beyond the last row whatever lies there: not used, and no lane has to wait for others
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
                if (lane == p && row < here)
                    slope[row * POINTS + p] = slopes.after(above + row, p, sum[p], known[turn]);
            }
        }
        __syncthreads();
        if (group < groups)
            for (int row = group; row < here; row += groups) {
                const float4 a = tile[row * columns + column];
#pragma unroll
                for (int p = 0; p < POINTS; ++p) add(total[p], a, slope[row * POINTS + p]);
            }
    }

    float4* out = reinterpret_cast<float4*>(to);
#pragma unroll
    for (int p = 0; p < POINTS; ++p) {
        __syncthreads();
        sums[threadIdx.x] = total[p];
        __syncthreads();
        if (threadIdx.x < columns) {
            float4 all = sums[threadIdx.x];
            for (int other = 1; other < groups; ++other) add(all, sums[other * columns + threadIdx.x], 1.f);
            out[p * columns + threadIdx.x] = all;
        }
    }
}
