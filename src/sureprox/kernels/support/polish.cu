// The primal-dual active set method of support/newton.py on the candidates of each instance, one block of threads each.
//
// With S the candidates that are `on`, N the others, and pull minus the slope of the penalty in S, the step d from x has
//
//     d_N = -x_N,   G_SS d_S = r = pull_S - g_S + G_SN x_N.
//
// G_SS = U D^-1 U', U lower triangular with the diagonal D, is computed in shared memory, with r as one more row of it,
// which becomes D U^-1 r on the way. What comes out of S with the other sign leaves it, what is not in S and has
// |g + G d|_j > limit_j joins it, until nothing changes, at most ROUNDS times.

#include "runtime/device.cu"
#include "support/rules.h"

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

constexpr int THREADS = 256, SIDE = 16, WARP = 32, WIDEST = 224, HELD = WIDEST / WARP;

// Entry (i, k), k <= i, of a symmetric or lower triangular matrix, row after row
__device__ __forceinline__ int at(int i, int k) { return i * (i + 1) / 2 + k; }

// U, which holds G_SS (size, size) and then r, becomes what it is above; whether that is possible. Column after column is
// subtracted from what lies to the right of it and never written again, so that a column is one wait for the others.
__device__ bool factorized(double* U, int size) {
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    for (int j = 0; j < size; ++j) {
        __syncthreads();
        const double pivot = U[at(j, j)];
        if (!(pivot > 0.)) return false;  // all threads see the same
        const double inverse = 1. / pivot;
        for (int i = j + 1 + row; i <= size; i += SIDE) {
            const double by = U[at(i, j)] * inverse;
            const int last = i < size ? i : size - 1;
            for (int k = j + 1 + column; k <= last; k += SIDE) U[at(i, k)] -= by * U[at(k, j)];
        }
    }
    __syncthreads();
    return true;
}

// The row w = D U^-1 r becomes d with U' d = w; by one warp, each lane with every 32nd number.
__device__ void solve(double* U, int size) {
    const int lane = threadIdx.x % WARP;
    double mine[HELD], inverse[HELD];
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
        const int i = lane + WARP * h;
        mine[h] = i < size ? U[at(size, i)] : 0.;
        inverse[h] = i < size ? 1. / U[at(i, i)] : 0.;
    }
#pragma unroll
    for (int block = HELD - 1; block >= 0; --block) {
        for (int from = WARP - 1; from >= 0; --from) {
            const int j = from + WARP * block;
            if (j >= size) continue;
            const double value = __shfl_sync(0xffffffffu, mine[block] * inverse[block], from);
            if (lane == from) mine[block] = value;
#pragma unroll
            for (int h = 0; h <= block; ++h)
                if (lane + WARP * h < j) mine[h] -= U[at(j, lane + WARP * h)] * value;
        }
    }
#pragma unroll
    for (int h = 0; h < HELD; ++h)
        if (lane + WARP * h < size) U[at(size, lane + WARP * h)] = mine[h];
}

// (G v)_j, G (width, width) symmetric
__device__ double product(const double* G, const double* v, int j, int width) {
    double sum = 0.;
#pragma unroll 8
    for (int k = 0; k < width; ++k) sum += G[(long long)k * width + j] * v[k];
    return sum;
}

// gram (batch, width, width), x, g, lam, pull, limit (batch, width), on (batch, width) -> z (batch, width): zero outside
// S, not a number where some A_S has no full rank. width <= WIDEST; shared memory holds 3 width + width (width + 1) / 2
// doubles and 2 width whole numbers.
extern "C" __global__ void __launch_bounds__(THREADS)
active_set(const double* gram, const double* x, const double* g, const double* lam, const double* pull,
           const double* limit, const unsigned char* on, double* z, int width, int rounds) {
    SHARED_BYTES(raw)
    double* d = reinterpret_cast<double*>(raw);
    double* drawn = d + width;  // pull, as it is now
    double* U = drawn + width;
    int* inside = reinterpret_cast<int*>(U + width * (width + 1) / 2 + width);
    int* chosen = inside + width;
    __shared__ int size, left, changed;
    const long long first = (long long)blockIdx.x * width;
    const double* G = gram + first * width;
    for (int j = threadIdx.x; j < width; j += THREADS) inside[j] = on[first + j], drawn[j] = pull[first + j];
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) left = changed = 0;
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            int place = 0;
            for (int k = 0; k < j; ++k) place += inside[k];
            if (inside[j]) chosen[place] = j;
            if (j == width - 1) size = place + inside[j];
            d[j] = inside[j] ? 0. : x[first + j];
            if (d[j] != 0.) left = 1;
        }
        __syncthreads();
        const int count = size;
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int j = chosen[i];
            U[at(count, i)] = (left ? product(G, d, j, width) : 0.) + drawn[j] - g[first + j];
        }
        for (int i = threadIdx.x / SIDE; i < count; i += SIDE)
            for (int k = threadIdx.x % SIDE; k <= i; k += SIDE)
                U[at(i, k)] = G[(long long)chosen[i] * width + chosen[k]];
        if (!factorized(U, count)) {
            for (int j = threadIdx.x; j < width; j += THREADS) z[first + j] = sqrt(-1.);  // not a number
            return;
        }
        if (threadIdx.x < WARP) solve(U, count);
        for (int j = threadIdx.x; j < width; j += THREADS) d[j] = -d[j];
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += THREADS) d[chosen[i]] = U[at(count, i)];
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            const double there = x[first + j] + d[j], slope = product(G, d, j, width) + g[first + j];
            const bool leaves = leaves_at(drawn[j], there), joins = joins_at(inside[j], slope, limit[first + j]);
            z[first + j] = leaves ? 0. : there;
            if (leaves || joins) {
                inside[j] = !inside[j];
                drawn[j] = next_pull(joins, slope, lam[first + j]);
                changed = 1;
            }
        }
        __syncthreads();
        const bool again = changed;
        __syncthreads();  // all have seen it
        if (!again) return;
    }
}
