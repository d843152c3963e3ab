// For POINTS points of an instance, from one read of its matrix: the products with A, what `Slopes` makes of them, and
// the products of that with A'.
//
// Block (i, s) does so for rows s R, ..., s R + R - 1 of matrix i, warp w of it for rows w, w + WARPS, ... among these.
// A row comes into shared memory in pieces of four numbers, each copied by the lane that will use it, so that no lane
// waits for another one: TURNS rows are a stage, and STAGES - 1 of these are on their way while a warp works on one.
// So do the numbers that `Slopes` needs with a row. A lane keeps its columns of the points and of the products with A'
// in registers. What the blocks of one matrix return is to be added up.
//
// Compile-time: POINTS; CHUNKS = ceil(n / 128), how many groups of four columns a lane holds of a row; TURNS;
// STAGES >= 2. n is a multiple of 4; A and x lie at multiples of 16 bytes.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];

// Copies that need no registers on their way. `arrived`: all but the `LATER` last groups of this thread's are there.
__device__ __forceinline__ void fetch(float4* to, const float4* from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}
__device__ __forceinline__ void fetch(float* to, const float* from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> __device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32;

__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ __forceinline__ void add(float4& sum, float4 a, float by) {
    sum.x += a.x * by, sum.y += a.y * by, sum.z += a.z * by, sum.w += a.w * by;
}

// A (batch, m, n), x (batch, POINTS, n) -> to (POINTS, n), this block's part of the products with A'.
// slopes.before(row, p, k) is where the k-th of Slopes::KNOWN numbers lies, or null; slopes.after(row, p, product, they)
// returns what A' is multiplied with; lane p does so for point p. Shared memory holds WARPS STAGES TURNS rows with the
// KNOWN POINTS numbers of each, and WARPS POINTS rows when these are used up.
template <class Slopes>
__device__ __forceinline__ void products(const float* A, const float* x, float* to, int m, int n, int R,
                                         Slopes& slopes) {
    SHARED_BYTES(raw)
    const int columns = n / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4* shared = reinterpret_cast<float4*>(raw);
    float4* ring = shared + warp * STAGES * TURNS * columns;
    float* known = reinterpret_cast<float*>(shared + WARPS * STAGES * TURNS * columns) +
                   (warp * STAGES * TURNS * POINTS + lane) * Slopes::KNOWN;
    const long long instance = blockIdx.x;
    const int first = blockIdx.y * R, rows = min(R, m - first);
    const float4* matrix = reinterpret_cast<const float4*>(A + (instance * m + first) * n);
    const float4* points = reinterpret_cast<const float4*>(x + instance * POINTS * n);
    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
    const bool last = lane + 32 * (CHUNKS - 1) < columns;  // whether this lane has a last chunk; all have the others

    auto place = [](int stage, int turn) { return (stage % STAGES * TURNS + turn) * POINTS * Slopes::KNOWN; };
    auto ask = [&](int stage) {  // an empty group beyond the last row, so that counting groups counts stages
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int row = (stage * TURNS + turn) * WARPS + warp;
            float4* tile = ring + (stage % STAGES * TURNS + turn) * columns + lane;
            const float4* from = matrix + row * columns + lane;
            if (row >= rows) continue;
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k)
                if (k < CHUNKS - 1 || last) fetch(tile + 32 * k, from + 32 * k);
            if (lane < POINTS)
#pragma unroll
                for (int k = 0; k < Slopes::KNOWN; ++k) {
                    const float* number = slopes.before(first + row, lane, k);
                    if (number != nullptr) fetch(known + place(stage, turn) + k, number);
                }
        }
        end_group();
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) ask(stage);
    float4 own[POINTS][CHUNKS], total[POINTS][CHUNKS];
#pragma unroll
    for (int p = 0; p < POINTS; ++p)
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            total[p][k] = zero;
            own[p][k] = k < CHUNKS - 1 || last ? points[p * columns + lane + 32 * k] : zero;
        }

    for (int stage = 0; stage * TURNS * WARPS + warp < rows; ++stage) {
        ask(stage + STAGES - 1);  // where the stage before was
        arrived<STAGES - 1>();
        const float4* tile = ring + stage % STAGES * TURNS * columns + lane;
        float sum[TURNS][POINTS];  // beyond the last row whatever lies there: not used
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
#pragma unroll
            for (int p = 0; p < POINTS; ++p) sum[turn][p] = 0.f;
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k) {
                const float4 a = k < CHUNKS - 1 || last ? tile[turn * columns + 32 * k] : zero;
#pragma unroll
                for (int p = 0; p < POINTS; ++p) sum[turn][p] += dot(a, own[p][k]);
            }
        }
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2)
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
                for (int p = 0; p < POINTS; ++p) sum[turn][p] += __shfl_xor_sync(0xffffffffu, sum[turn][p], apart);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int row = (stage * TURNS + turn) * WARPS + warp;
            if (row >= rows) continue;  // all lanes of the warp
            float mine = sum[turn][0], slope = 0.f;
#pragma unroll
            for (int p = 1; p < POINTS; ++p) mine = lane == p ? sum[turn][p] : mine;
            if (lane < POINTS) slope = slopes.after(first + row, lane, mine, known + place(stage, turn));
            float by[POINTS];
#pragma unroll
            for (int p = 0; p < POINTS; ++p) by[p] = __shfl_sync(0xffffffffu, slope, p);
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k) {
                const float4 a = k < CHUNKS - 1 || last ? tile[turn * columns + 32 * k] : zero;
#pragma unroll
                for (int p = 0; p < POINTS; ++p) add(total[p][k], a, by[p]);
            }
        }
    }

    arrived<0>();
    __syncthreads();  // nobody needs rows of A any more
#pragma unroll
    for (int p = 0; p < POINTS; ++p)
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            if (k < CHUNKS - 1 || last) shared[(warp * POINTS + p) * columns + lane + 32 * k] = total[p][k];
    __syncthreads();
    float4* out = reinterpret_cast<float4*>(to);
    for (int place = threadIdx.x; place < POINTS * columns; place += THREADS) {
        float4 all = shared[place];
#pragma unroll
        for (int other = 1; other < WARPS; ++other) add(all, shared[other * POINTS * columns + place], 1.f);
        out[place] = all;
    }
}
