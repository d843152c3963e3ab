// support/newton.py for LASSO problems, from x, its gradient and A to the point, one block of threads for each instance.
//
// The candidates are the support of x and, an eighth as many, the coordinates outside with the largest |g|. G = A_W'A_W
// in float64, by the matrix units, stays in shared memory. In each round of the active set method (see polish.cu) thread
// (row, column) of SIDE x SIDE holds the entries (row + SIDE p, column + SIDE q), q <= p, of what is left of G_SS, and
// below it of r = pull - g + G x_N as one more row; column j goes to U when its turn has come, everybody subtracts it,
// and whoever is not in S is passed over. At the point that comes out the whole gradient is computed; if a coordinate
// that was no candidate should have joined, or the rounds were not enough, all is done once more from there.

#include "runtime/device.cu"
#include "support/rules.h"

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];

// c += a b for an 8 x 4 matrix a and a 4 x 8 matrix b: lane l gives a[l / 4][l % 4] and b[l % 4][l / 4], and holds
// c[l / 4][2 (l % 4)] and the entry beside it.
__device__ __forceinline__ void multiply_add(double (&c)[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}
#endif

// PIECES, given: SIDE PIECES - 1 candidates at most
constexpr int THREADS = 256, WARP = 32, WARPS = THREADS / WARP, SIDE = 16, DEEP = 32, LONGEST = 512;
constexpr int MOST = SIDE * PIECES, TRIANGLE = MOST * (MOST + 1) / 2, HELD = (MOST + WARP - 1) / WARP;
constexpr int STRIDE = MOST + 4;  // so that four rows of four doubles lie in different banks
constexpr int UNITS = (PIECES * (PIECES + 1) / 2 + WARPS - 1) / WARPS;  // pieces of G that a warp makes

struct Shared {
    union {
        double G[TRIANGLE];
        struct {
            double gradient[LONGEST];
            float scores[LONGEST];
            int on[LONGEST];
        } all;  // coordinates, before there are candidates and when there is a point
    };
    union {
        double U[TRIANGLE + 2 * MOST];
        double part[DEEP][STRIDE];  // rows of A_W, while G is made
    };
    double x[MOST], g[MOST], pull[MOST], right[MOST], inverse[MOST], d[MOST], z[MOST];
    int columns[MOST], inside[MOST], sums[WARPS];
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

// s.columns: the candidates, s.size of them in the support; how many there are, none if too many.
__device__ int chosen(Shared& s, const double* x, const double* g, double lam, int m, int n) {
    constexpr int EACH = LONGEST / THREADS;  // coordinates of a thread, side by side
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, first = EACH * threadIdx.x;
    int mine = 0;
    for (int j = first; j < first + EACH; ++j) {
        const bool on = j < n && (x[j] != 0. || lam == 0.);  // where the penalty has a slope
        const float score = j < n ? (float)(fabs(g[j]) / lam) : 0.f;
        s.all.on[j] = on, s.all.scores[j] = on || j >= n ? -1.f : score >= 0.f ? score : 0.f;  // never NaN: all differ
        mine += on;
    }
    float sum = mine;
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (lane == 0) s.sums[warp] = (int)sum;
    __syncthreads();
    int before = 0, size = 0;
    for (int w = 0; w < WARPS; ++w) before += w < warp ? s.sums[w] : 0, size += s.sums[w];
    for (int k = EACH * WARP * warp; k < first; ++k) before += s.all.on[k];
    const int wanted = candidates_for(size), width = wanted < n ? wanted : n;
    if (size > m || width >= MOST) return 0;
    if (threadIdx.x == 0) s.size = size;
    int rank[EACH] = {};
    float own[EACH];
    for (int e = 0; e < EACH; ++e) {
        own[e] = s.all.scores[first + e];
        if (s.all.on[first + e]) s.columns[before++] = first + e;
    }
    for (int k = 0; k < n; k += 4) {
        const float4 others = *reinterpret_cast<const float4*>(s.all.scores + k);
        const float other[4] = {others.x, others.y, others.z, others.w};
        for (int e = 0; e < EACH; ++e)
            for (int i = 0; i < 4; ++i) rank[e] += other[i] > own[e] || (other[i] == own[e] && k + i < first + e);
    }
    for (int e = 0; e < EACH; ++e)
        if (first + e < n && !s.all.on[first + e] && size + rank[e] < width) s.columns[size + rank[e]] = first + e;
    __syncthreads();
    return width;
}

// s.G, from A (m, n)
__device__ void form(Shared& s, const float* A, int m, int n, int width) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, pieces = (width + SIDE - 1) / SIDE;
    int high[UNITS], low[UNITS];  // which pieces, SIDE rows and columns of G, low <= high
    double sums[UNITS][2][2][2] = {};
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
        const int piece = warp + WARPS * u;
        int I = 0;
        while (at(I + 1, 0) <= piece) ++I;
        high[u] = I, low[u] = piece - at(I, 0);
    }
    constexpr int DOWN = DEEP / WARPS, ALONG = (MOST + WARP - 1) / WARP;
    float ahead[DOWN][ALONG];  // of the rows that come next
    for (int from = -DEEP; from < m; from += DEEP) {
        __syncthreads();  // all have used the rows before
#pragma unroll
        for (int a = 0; a < DOWN; ++a)
#pragma unroll
            for (int b = 0; b < ALONG; ++b) {
                const int r = warp + WARPS * a, c = lane + WARP * b;
                if (from >= 0 && c < SIDE * pieces) s.part[r][c] = ahead[a][b];
                const bool there = from + DEEP + r < m && c < width;
                ahead[a][b] = there ? A[(long long)(from + DEEP + r) * n + s.columns[c]] : 0.f;
            }
        if (from < 0) continue;
        __syncthreads();
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            if (high[u] >= pieces) continue;
#pragma unroll 4
            for (int r = 0; r < DEEP; r += 4) {
                const double* of = s.part[r + lane % 4] + lane / 4;
#pragma unroll
                for (int p = 0; p < 2; ++p)
#pragma unroll
                    for (int q = 0; q < 2; ++q)
                        multiply_add(sums[u][p][q], of[SIDE * high[u] + 8 * p], of[SIDE * low[u] + 8 * q]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < UNITS; ++u)
#pragma unroll
        for (int p = 0; p < 2; ++p)
#pragma unroll
            for (int q = 0; q < 2; ++q)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int i = SIDE * high[u] + 8 * p + lane / 4, k = SIDE * low[u] + 8 * q + 2 * (lane % 4) + e;
                    if (i < width && k <= i) s.G[at(i, k)] = sums[u][p][q][e];
                }
    __syncthreads();
}

// Where column j of U begins, less j: it holds the rows j to `width`, and row i of it is found at this plus i.
__device__ __forceinline__ int column_of(int j, int width) { return j * (width + 1) - j * (j - 1) / 2 - j; }

// The columns of S in U, with s.right as their row `width`; whether A_S has full rank.
__device__ bool factorized(Shared& s, int width) {
    const int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE, pieces = width / SIDE + 1;
    double left[PIECES][PIECES];  // zero for those who are not in S, and so it stays
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
#pragma unroll
        for (int q = 0; q <= p; ++q) {
            const int i = row + SIDE * p, k = column + SIDE * q;
            const bool in = k < width && s.inside[k] && (i == width || (k <= i && i < width && s.inside[i]));
            left[p][q] = !in ? 0. : i == width ? s.right[k] : s.G[at(i, k)];
        }
#pragma unroll
    for (int turn = 0; turn < PIECES; ++turn)
        for (int own = 0; own < SIDE; ++own) {
            const int j = own + SIDE * turn;
            if (j >= width) return true;
            if (!s.inside[j]) continue;  // the same for all
            double* U = s.U + column_of(j, width);
            if (column == own) {
#pragma unroll
                for (int p = turn; p < PIECES; ++p) {
                    const int i = row + SIDE * p;
                    if (i >= j && i <= width) U[i] = left[p][turn];
                }
                if (row == own) s.inverse[j] = 1. / left[turn][turn];
            }
            __syncthreads();
            if (!(U[j] > 0.)) return false;  // the same for all
            const double inverse = s.inverse[j];
            double by[PIECES];  // what lies beyond `width` is nobody's and goes nowhere
#pragma unroll
            for (int q = turn; q < PIECES; ++q)
                by[q] = q < pieces && (q > turn || column > own) ? U[column + SIDE * q] : 0.;
#pragma unroll
            for (int p = turn; p < PIECES; ++p) {
                if (p >= pieces) break;
                const double mine = p > turn || row > own ? U[row + SIDE * p] * inverse : 0.;
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
    const double* U[HELD];
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
        const int i = lane + WARP * h;
        const bool in = i < width && s.inside[i];
        U[h] = s.U + column_of(i, width);
        mine[h] = in ? U[h][width] : 0., inverse[h] = in ? s.inverse[i] : 0.;
    }
#pragma unroll
    for (int block = HELD - 1; block >= 0; --block)
        for (int from = WARP - 1; from >= 0; --from) {
            const int j = from + WARP * block;
            if (j >= width || !s.inside[j]) continue;
            const double value = __shfl_sync(0xffffffffu, mine[block] * inverse[block], from);
            if (lane == from) s.d[j] = value;
#pragma unroll
            for (int h = 0; h <= block; ++h)
                if (lane + WARP * h < j && inverse[h] != 0.) mine[h] -= U[h][j] * value;
        }
}

enum Outcome { FAILED, UNFINISHED, FINISHED };

// s.z: the point, zero outside S, if it could be computed; whether more rounds would change it.
__device__ Outcome active_set(Shared& s, double lam, double limit, int width, int rounds) {
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
        if (!factorized(s, width)) return FAILED;
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS)
            if (!s.inside[j]) s.d[j] = -s.x[j];
        if (threadIdx.x < WARP) solve(s, width);
        __syncthreads();
        for (int j = threadIdx.x; j < width; j += THREADS) {
            const double there = s.x[j] + s.d[j], slope = product(s, j, width) + s.g[j];
            const bool leaves = leaves_at(s.pull[j], there), joins = joins_at(s.inside[j], slope, limit);
            s.z[j] = leaves ? 0. : there;
            if (!(fabs(there) < 1e300)) s.broken = 1;
            if (leaves || joins) {
                s.pull[j] = next_pull(joins, slope, lam);
                s.inside[j] = !s.inside[j];
                s.changed = 1;
            }
        }
        __syncthreads();
        const bool broken = s.broken, changed = s.changed;
        __syncthreads();  // all have seen it
        if (broken) return FAILED;
        if (!changed) return FINISHED;
    }
    return UNFINISHED;
}

// out (n): the gradient at s.z, that at s.x being g; whether all but the candidates are where they should be.
__device__ bool complete(Shared& s, const float* A, const double* g, double* out, double limit, int m, int n,
                         int width) {
    constexpr int EACH = LONGEST / WARP;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int c = threadIdx.x; c < width; c += THREADS) s.d[c] = s.z[c] - s.x[c];
    for (int j = threadIdx.x; j < n; j += THREADS) s.all.on[j] = 0;
    if (threadIdx.x == 0) s.changed = 0;
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += THREADS) s.all.on[s.columns[c]] = 1;
    double sums[EACH] = {};
    for (int i = warp; i < m; i += WARPS) {
        const float* row = A + (long long)i * n;
        float entries[EACH];
#pragma unroll
        for (int e = 0; e < EACH; ++e) entries[e] = lane + WARP * e < n ? row[lane + WARP * e] : 0.f;
        double image = 0.;
        for (int c = lane; c < width; c += WARP) image += row[s.columns[c]] * s.d[c];
        for (int apart = 16; apart > 0; apart /= 2) image += __shfl_xor_sync(0xffffffffu, image, apart);
#pragma unroll
        for (int e = 0; e < EACH; ++e) sums[e] += entries[e] * image;
    }
    for (int turn = 0; turn < WARPS; ++turn) {
        __syncthreads();
        if (warp != turn) continue;
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int j = lane + WARP * e;
            if (j < n) s.all.gradient[j] = (turn == 0 ? g[j] : s.all.gradient[j]) + sums[e];
        }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += THREADS) {
        out[j] = s.all.gradient[j];
        if (!s.all.on[j] && fabs(out[j]) > limit) s.changed = 1;
    }
    __syncthreads();
    return !s.changed;
}

// A (count, m, n), lam (count), rows (batch): numbers of instances; x, g (batch, n), a point of each of them and the
// gradient there -> z (batch, n): the point of support/newton.py, x itself where there is none; h (batch, n) is needed on
// the way. n <= LONGEST.
extern "C" __global__ void __launch_bounds__(THREADS, PIECES < 8 ? 2 : 1)
polish(const float* A, const float* lam, const long long* rows, const double* x, const double* g, double* z, double* h,
       int m, int n, int rounds) {
    SHARED_BYTES(raw)
    Shared& s = *reinterpret_cast<Shared*>(raw);
    const long long instance = rows[blockIdx.x], first = (long long)blockIdx.x * n;
    const float* mine = A + instance * m * n;
    const double weight = lam[instance], limit = weight * (1. + SLACK);
    const double *point = x + first, *slope = g + first;
    z += first, h += first;
    for (int j = threadIdx.x; j < n; j += THREADS) z[j] = point[j];
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        __syncthreads();
        const int width = chosen(s, point, slope, weight, m, n);
        if (width == 0) return;  // all return together, here and below
        for (int c = threadIdx.x; c < width; c += THREADS) {
            const double value = point[s.columns[c]];
            s.inside[c] = c < s.size, s.x[c] = value, s.g[c] = slope[s.columns[c]];
            s.pull[c] = pull_of(value, weight);
        }
        form(s, mine, m, n, width);
        const Outcome outcome = active_set(s, weight, limit, width, rounds);
        if (outcome == FAILED) return;
        const bool once_more = attempt < ATTEMPTS - 1,
                   last = !once_more || (complete(s, mine, slope, h, limit, m, n, width) && outcome == FINISHED);
        for (int j = threadIdx.x; j < n; j += THREADS) z[j] = 0.;
        __syncthreads();
        for (int c = threadIdx.x; c < width; c += THREADS) z[s.columns[c]] = s.z[c];
        if (last) return;
        point = z, slope = h;
    }
}
