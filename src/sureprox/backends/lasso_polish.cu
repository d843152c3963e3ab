// sureprox.polish for LASSO problems, from x, its gradient and A to the point, one block of threads for each instance.
//
// The candidates are the support of x and, an eighth as many, the coordinates outside with the largest |g|. G = A_W'A_W
// in float64 stays in shared memory. In each round of the active set method (see polish.cu) thread (row, column) of
// SIDE x SIDE holds the entries (row + SIDE p, column + SIDE q), q <= p, of what is left of G_SS, and below it of
// r = pull - g + G x_N as one more row; column j goes to U when its turn has come, everybody subtracts it, and whoever
// is not in S is passed over.

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

// PIECES, given: SIDE PIECES - 1 candidates at most
constexpr int THREADS = 256, WARP = 32, SIDE = 16, DEEP = 32, LONGEST = 512;
constexpr int MOST = SIDE * PIECES, TRIANGLE = MOST * (MOST + 1) / 2, HELD = (MOST + WARP - 1) / WARP;

struct Shared {
    union {
        double G[TRIANGLE];
        struct {
            double scores[LONGEST];
            int on[LONGEST];
        } all;  // coordinates, before there are candidates
    };
    union {
        double U[TRIANGLE + MOST];
        double part[DEEP][MOST];  // rows of A_W, while G is made
    };
    double x[MOST], g[MOST], pull[MOST], right[MOST], d[MOST], z[MOST];
    int columns[MOST], inside[MOST];
    int size, left, changed, broken;
};

// Entry (i, k), k <= i, of a symmetric or lower triangular matrix, row after row
__device__ __forceinline__ int at(int i, int k) { return i * (i + 1) / 2 + k; }

// (G d)_j
__device__ double product(const Shared& s, int j, int width) {
    double sum = 0.;
#pragma unroll 4
    for (int k = 0; k <= j; ++k) sum += s.G[at(j, k)] * s.d[k];
#pragma unroll 4
    for (int k = j + 1; k < width; ++k) sum += s.G[at(k, j)] * s.d[k];
    return sum;
}

// s.columns: the candidates, s.size of them in the support; how many there are.
__device__ int chosen(Shared& s, const double* x, const double* g, double lam, int m, int n) {
    for (int j = threadIdx.x; j < n; j += THREADS) {
        const bool on = x[j] != 0. || lam == 0.;  // where the penalty has a slope
        s.all.on[j] = on, s.all.scores[j] = on ? -1. : fabs(g[j]) / lam;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += THREADS) {
        int before = 0;
        for (int k = 0; k < j; ++k) before += s.all.on[k];
        if (s.all.on[j] && before < MOST) s.columns[before] = j;
        if (j == n - 1) s.size = before + s.all.on[j];
    }
    __syncthreads();
    const int size = s.size, wanted = size + size / 8 + 8, width = wanted < n ? wanted : n;
    if (size > m || width >= MOST) return 0;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        if (s.all.on[j]) continue;
        const double mine = s.all.scores[j];
        int rank = 0;
        for (int k = 0; k < n; ++k) {
            const double other = s.all.scores[k];
            rank += other > mine || (other == mine && k < j);
        }
        if (size + rank < width) s.columns[size + rank] = j;
    }
    __syncthreads();
    return width;
}

// s.G, from A (m, n)
__device__ void form(Shared& s, const float* A, int m, int n, int width) {
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE, pieces = (width + SIDE - 1) / SIDE;
    double sums[PIECES][PIECES] = {};
    for (int from = 0; from < m; from += DEEP) {
        __syncthreads();  // all have used the rows before
        for (int r = threadIdx.x / WARP; r < DEEP; r += THREADS / WARP)
            for (int c = threadIdx.x % WARP; c < SIDE * pieces; c += WARP) {
                const bool there = from + r < m && c < width;
                s.part[r][c] = there ? A[(long long)(from + r) * n + s.columns[c]] : 0.;
            }
        __syncthreads();
#pragma unroll 2
        for (int r = 0; r < DEEP; ++r) {
            double by[PIECES];
#pragma unroll
            for (int q = 0; q < PIECES; ++q) by[q] = q < pieces ? s.part[r][column + SIDE * q] : 0.;
#pragma unroll
            for (int p = 0; p < PIECES; ++p) {
                if (p >= pieces) break;
                const double mine = s.part[r][row + SIDE * p];
#pragma unroll
                for (int q = 0; q <= p; ++q) sums[p][q] += mine * by[q];
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
#pragma unroll
        for (int q = 0; q <= p; ++q) {
            const int i = row + SIDE * p, k = column + SIDE * q;
            if (i < width && k <= i) s.G[at(i, k)] = sums[p][q];
        }
    __syncthreads();
}

// The columns of S in U, and s.right as its row `width`; whether A_S has full rank.
__device__ bool factorized(Shared& s, int width) {
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    double left[PIECES][PIECES];
    unsigned rows = 0, columns = 0;  // which of mine are in S, or below
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        const int i = row + SIDE * p, k = column + SIDE * p;
        if (i == width || (i < width && s.inside[i])) rows |= 1u << p;
        if (k < width && s.inside[k]) columns |= 1u << p;
#pragma unroll
        for (int q = 0; q <= p; ++q) {
            const int c = column + SIDE * q;
            left[p][q] = i < width && c <= i ? s.G[at(i, c)] : i == width && c < width ? s.right[c] : 0.;
        }
    }
#pragma unroll
    for (int turn = 0; turn < PIECES; ++turn)
        for (int own = 0; own < SIDE; ++own) {
            const int j = own + SIDE * turn;
            if (j >= width) return true;
            if (!s.inside[j]) continue;  // the same for all
            if (column == own) {
#pragma unroll
                for (int p = turn; p < PIECES; ++p) {
                    const int i = row + SIDE * p;
                    if (i >= j && i <= width) s.U[at(i, j)] = left[p][turn];
                }
            }
            __syncthreads();
            const double pivot = s.U[at(j, j)];
            if (!(pivot > 0.)) return false;  // the same for all
            const double inverse = 1. / pivot;
            double by[PIECES];
#pragma unroll
            for (int q = turn; q < PIECES; ++q) {
                const int k = column + SIDE * q;
                by[q] = (columns >> q & 1) && k > j ? s.U[at(k, j)] : 0.;
            }
#pragma unroll
            for (int p = turn; p < PIECES; ++p) {
                const int i = row + SIDE * p;
                const double mine = (rows >> p & 1) && i > j ? s.U[at(i, j)] * inverse : 0.;
#pragma unroll
                for (int q = turn; q <= p; ++q) left[p][q] -= mine * by[q];
            }
        }
    return true;
}

// s.d in S, from the row `width` of U; by one warp, each lane with every 32nd number.
__device__ void solve(Shared& s, int width) {
    const int lane = threadIdx.x % WARP;
    double mine[HELD], inverse[HELD];
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
        const int i = lane + WARP * h;
        const bool in = i < width && s.inside[i];
        mine[h] = in ? s.U[at(width, i)] : 0., inverse[h] = in ? 1. / s.U[at(i, i)] : 0.;
    }
#pragma unroll
    for (int block = HELD - 1; block >= 0; --block)
        for (int from = WARP - 1; from >= 0; --from) {
            const int j = from + WARP * block;
            if (j >= width || !s.inside[j]) continue;
            const double value = __shfl_sync(0xffffffffu, mine[block] * inverse[block], from);
            if (lane == from) s.d[j] = value;
#pragma unroll
            for (int h = 0; h <= block; ++h) {
                const int i = lane + WARP * h;
                if (i < j && inverse[h] != 0.) mine[h] -= s.U[at(j, i)] * value;
            }
        }
}

// s.z: the point, zero outside S; whether it could be computed.
__device__ bool active_set(Shared& s, double lam, double limit, int width, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) s.left = s.changed = s.broken = 0;
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            s.d[j] = s.inside[j] ? 0. : s.x[j];
            if (s.d[j] != 0.) s.left = 1;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS)
            if (s.inside[j]) s.right[j] = (s.left ? product(s, j, width) : 0.) + s.pull[j] - s.g[j];
        __syncthreads();
        if (!factorized(s, width)) return false;
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS)
            if (!s.inside[j]) s.d[j] = -s.x[j];
        if (threadIdx.x < WARP) solve(s, width);
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            const double there = s.x[j] + s.d[j], slope = product(s, j, width) + s.g[j];
            const bool leaves = s.pull[j] * there > 0., joins = !s.inside[j] && fabs(slope) > limit;
            s.z[j] = leaves ? 0. : there;
            if (!(fabs(there) < 1e300)) s.broken = 1;
            if (leaves || joins) {
                s.pull[j] = joins ? copysign(lam, slope) : 0.;
                s.inside[j] = !s.inside[j];
                s.changed = 1;
            }
        }
        __syncthreads();
        if (s.broken) return false;
        if (!s.changed) return true;
        __syncthreads();  // all have seen it
    }
    return true;
}

// A (count, m, n), lam (count), rows (batch): numbers of instances; x, g (batch, n), a point of each of them and the
// gradient there -> z (batch, n): the point of sureprox.polish, x itself where there is none. n <= LONGEST.
extern "C" __global__ void __launch_bounds__(THREADS, PIECES < 8 ? 2 : 1)
polish(const float* A, const float* lam, const long long* rows, const double* x, const double* g, double* z, int m, int n,
       int rounds, double slack) {
    SHARED_BYTES(raw)
    Shared& s = *reinterpret_cast<Shared*>(raw);
    const long long instance = rows[blockIdx.x], first = (long long)blockIdx.x * n;
    const double weight = lam[instance];
    const int width = chosen(s, x + first, g + first, weight, m, n);
    bool solved = width > 0;
    if (solved) {
        for (int c = threadIdx.x; c < width; c += THREADS) {
            const double value = x[first + s.columns[c]];
            s.inside[c] = c < s.size, s.x[c] = value, s.g[c] = g[first + s.columns[c]];
            s.pull[c] = value == 0. ? 0. : value > 0. ? -weight : weight;
        }
        form(s, A + instance * m * n, m, n, width);
        solved = active_set(s, weight, weight * (1. + slack), width, rounds);
    }
    for (int j = threadIdx.x; j < n; j += THREADS) z[first + j] = solved ? 0. : x[first + j];
    __syncthreads();
    for (int c = threadIdx.x; solved && c < width; c += THREADS) z[first + s.columns[c]] = s.z[c];
}
