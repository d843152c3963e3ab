// The primal-dual active set method of sureprox.polish on the candidates of each instance, one block of threads each.
//
// With S the candidates that are `on`, N the others, and pull minus the slope of the penalty in S, the step d from x has
//
//     d_N = -x_N,   G_SS d_S = pull_S - g_S + G_SN x_N,
//
// by a Cholesky factorization in shared memory. What comes out of S with the other sign leaves it, what is not in S and
// has |g + G d|_j > limit_j joins it, until nothing changes, at most ROUNDS times.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

constexpr int THREADS = 256, SIDE = 16, WARP = 32, WIDEST = 224, HELD = WIDEST / WARP;

// Entry (i, k), k <= i, of a symmetric or lower triangular matrix, row after row
__device__ __forceinline__ int at(int i, int k) { return i * (i + 1) / 2 + k; }

// L (size, size) becomes the lower factor of itself, the diagonal inverted; whether that is possible.
__device__ bool factorized(double* L, int size) {
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    for (int j = 0; j < size; ++j) {
        __syncthreads();
        const double pivot = L[at(j, j)];
        if (!(pivot > 0.)) return false;  // all threads see the same
        const double inverse = 1. / sqrt(pivot);
        __syncthreads();
        for (int i = j + threadIdx.x; i < size; i += THREADS)
            L[at(i, j)] = i == j ? inverse : L[at(i, j)] * inverse;
        __syncthreads();
        for (int i = j + 1 + row; i < size; i += SIDE) {
            const double by = L[at(i, j)];
            for (int k = j + 1 + column; k <= i; k += SIDE) L[at(i, k)] -= by * L[at(k, j)];
        }
    }
    __syncthreads();
    return true;
}

// right (size) becomes the solution of L L' d = right; by one warp, each lane with every 32nd number.
__device__ void solve(const double* L, double* right, int size) {
    const int lane = threadIdx.x % WARP;
    double mine[HELD];
#pragma unroll
    for (int h = 0; h < HELD; ++h) mine[h] = lane + WARP * h < size ? right[lane + WARP * h] : 0.;
    for (int j = 0; j < size; ++j) {
        double value = 0.;
#pragma unroll
        for (int h = 0; h < HELD; ++h) value = h == j / WARP ? mine[h] : value;
        value = __shfl_sync(0xffffffffu, value, j % WARP) * L[at(j, j)];
#pragma unroll
        for (int h = 0; h < HELD; ++h) {
            const int i = lane + WARP * h;
            if (i == j) mine[h] = value;
            else if (i > j && i < size) mine[h] -= L[at(i, j)] * value;
        }
    }
    for (int j = size - 1; j >= 0; --j) {
        double value = 0.;
#pragma unroll
        for (int h = 0; h < HELD; ++h) value = h == j / WARP ? mine[h] : value;
        value = __shfl_sync(0xffffffffu, value, j % WARP) * L[at(j, j)];
#pragma unroll
        for (int h = 0; h < HELD; ++h) {
            const int i = lane + WARP * h;
            if (i == j) mine[h] = value;
            else if (i < j) mine[h] -= L[at(j, i)] * value;
        }
    }
#pragma unroll
    for (int h = 0; h < HELD; ++h)
        if (lane + WARP * h < size) right[lane + WARP * h] = mine[h];
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
    double* right = d + width;
    double* drawn = right + width;  // pull, as it is now
    double* L = drawn + width;
    int* inside = reinterpret_cast<int*>(L + width * (width + 1) / 2);
    int* chosen = inside + width;
    __shared__ int size, changed;
    const long long first = (long long)blockIdx.x * width;
    const double* G = gram + first * width;
    for (int j = threadIdx.x; j < width; j += THREADS) inside[j] = on[first + j], drawn[j] = pull[first + j];
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) {
            size = 0;
            for (int j = 0; j < width; ++j)
                if (inside[j]) chosen[size++] = j;
            changed = 0;
        }
        for (int j = threadIdx.x; j < width; j += THREADS) d[j] = inside[j] ? 0. : x[first + j];
        __syncthreads();
        const int count = size;
        for (int i = threadIdx.x; i < count; i += THREADS)
            right[i] = product(G, d, chosen[i], width) + drawn[chosen[i]] - g[first + chosen[i]];
        for (int i = threadIdx.x / SIDE; i < count; i += SIDE)
            for (int k = threadIdx.x % SIDE; k <= i; k += SIDE)
                L[at(i, k)] = G[(long long)chosen[i] * width + chosen[k]];
        if (!factorized(L, count)) {
            for (int j = threadIdx.x; j < width; j += THREADS) z[first + j] = sqrt(-1.);  // not a number
            return;
        }
        if (threadIdx.x < WARP) solve(L, right, count);
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) d[j] = -d[j];
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += THREADS) d[chosen[i]] = right[i];
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            const double there = x[first + j] + d[j], slope = product(G, d, j, width) + g[first + j];
            const bool leaves = drawn[j] * there > 0., joins = !inside[j] && fabs(slope) > limit[first + j];
            z[first + j] = leaves ? 0. : there;
            if (leaves || joins) {
                inside[j] = !inside[j];
                drawn[j] = joins ? copysign(lam[first + j], slope) : 0.;
                changed = 1;
            }
        }
        __syncthreads();
        const bool again = changed;
        __syncthreads();  // all have seen it
        if (!again) return;
    }
}
