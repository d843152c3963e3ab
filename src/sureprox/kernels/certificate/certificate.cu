// What is known about a point of each LASSO problem, in double precision and from one read of A: F, its duality gap, the
// KKT residual and the gradient g = A'z, z = A x - b.
//
// Block i works on instance i, warp w of it on rows w, w + WARPS, ..., TURNS of them at a time. A lane keeps its columns
// of x and of g in registers: groups of four, 32 groups apart.
//
// Compile-time: DOUBLES, whether A, b and lam are in double precision; CHUNKS = ceil(n / 128); TURNS. n is a multiple of
// 4; A and x lie at multiples of 16 bytes.

#include "runtime/device.cu"
#include "certificate/gap.h"

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

#if DOUBLES
typedef double Entry;
#else
typedef float Entry;
#endif

constexpr int THREADS = 256, WARPS = THREADS / 32, NUMBERS = 3;

struct __align__(16) Four {
    Entry v[4];
};

struct Sum {
    __device__ static double of(double a, double b) { return a + b; }
};
struct Largest {  // of numbers >= 0
    __device__ static double of(double a, double b) { return a > b ? a : b; }
};

// What `How` makes of the numbers of all threads, the same in every thread; `room` holds WARPS numbers.
template <class How> __device__ double together(double value, double* room) {
    for (int apart = 16; apart > 0; apart /= 2) value = How::of(value, __shfl_xor_sync(0xffffffffu, value, apart));
    __syncthreads();  // nobody reads what was there before
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    __syncthreads();
    value = room[0];
    for (int warp = 1; warp < WARPS; ++warp) value = How::of(value, room[warp]);
    return value;
}

// A (matrices, m, n), one for each instance or one for all, b (batch, m), lam (batch), x (batch, n) in double precision
// -> out (batch, 3), gradient (batch, n). Shared memory holds WARPS (n + 1) doubles.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
certificate(const Entry* A, const Entry* b, const Entry* lam, const double* x, double* out, double* gradient,
            int m, int n, int matrices) {
    SHARED_BYTES(raw)
    double* parts = reinterpret_cast<double*>(raw);
    double* room = parts + WARPS * n;
    const int groups = n / 4, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long instance = blockIdx.x;
    const Four* matrix = reinterpret_cast<const Four*>(A + (matrices > 1 ? instance * m * n : 0));
    const Entry* right = b + instance * m;
    const double* point = x + instance * n;
    const bool last = lane + 32 * (CHUNKS - 1) < groups;  // whether this lane has a last group; all have the others

    double own[CHUNKS][4], total[CHUNKS][4];
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            total[k][c] = 0.;
            own[k][c] = k < CHUNKS - 1 || last ? point[4 * (lane + 32 * k) + c] : 0.;
        }
    double square = 0., product = 0.;  // |z|^2 and z'b over the rows of this warp
    for (int first = warp; first < m; first += WARPS * TURNS) {
        Four a[TURNS][CHUNKS];
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k)
                if (first + turn * WARPS < m && (k < CHUNKS - 1 || last))
                    a[turn][k] = matrix[(long long)(first + turn * WARPS) * groups + lane + 32 * k];
                else
                    a[turn][k] = {};
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int row = first + turn * WARPS;
            double z = 0.;
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
                for (int c = 0; c < 4; ++c) z += (double)a[turn][k].v[c] * own[k][c];
            for (int half = 16; half > 0; half /= 2) z += __shfl_xor_sync(0xffffffffu, z, half);
            if (row >= m) break;  // all lanes of the warp
            const double known = right[row];
            z -= known;
            square += z * z;
            product += z * known;
#pragma unroll
            for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
                for (int c = 0; c < 4; ++c) total[k][c] += (double)a[turn][k].v[c] * z;
        }
    }
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
        if (k < CHUNKS - 1 || last)
#pragma unroll
            for (int c = 0; c < 4; ++c) parts[warp * n + 4 * (lane + 32 * k) + c] = total[k][c];
    __syncthreads();

    const double weight = lam[instance];
    double largest = 0., size = 0., kkt = 0.;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        double g = parts[j];
        for (int other = 1; other < WARPS; ++other) g += parts[other * n + j];
        parts[j] = gradient[instance * n + j] = g;  // read by this thread alone
        const double y = point[j];
        size += fabs(y);
        largest = Largest::of(largest, fabs(g));
        kkt = Largest::of(kkt, kkt_residual(y, g, weight));
    }
    square = together<Sum>(lane == 0 ? square : 0., room);
    product = together<Sum>(lane == 0 ? product : 0., room);
    size = together<Sum>(size, room);
    largest = together<Largest>(largest, room);
    kkt = together<Largest>(kkt, room);

    const double scale = dual_scale(square, product, weight, largest);
    double gap = 0.;
    for (int j = threadIdx.x; j < n; j += THREADS) gap += gap_of_coordinate(point[j], parts[j], weight, scale);
    gap = together<Sum>(gap, room) + gap_of_residual(scale, square);
    if (threadIdx.x == 0) {
        const double value = 0.5 * square + weight * size;
        const double lost = value - value;  // zero, or not a number: then nothing else is one
        double* to = out + instance * NUMBERS;
        to[0] = value, to[1] = gap + lost, to[2] = kkt + lost;
    }
}
