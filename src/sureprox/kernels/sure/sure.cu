// A step of Sure for r = lam |x|_1 from a known gradient, one block per instance: see Sure.step and sure_features.py,
// which say why. First the inner products of an instance, then its LSTM, then its coordinates.
//
// Compile-time: OUTPUTS: 3, or 4 with a conjugate share; INSTANCE: units of the LSTM of an instance;
// COORDINATE: 8, or 0 where all coordinates of an instance get the same; BLOCK_THREADS: 64 or more.

#include "sure/coordinate.cu"
#include "runtime/warp.cu"

constexpr int WARPS = THREADS / 32, SLOTS = 16, SEEN = SEEN_INSTANCE, BOTH = SEEN + INSTANCE, CELLS = 4 * INSTANCE;
constexpr bool CONJUGATE = OUTPUTS == 4;
// the inputs of a gate are shared between threads, if there are enough of these
constexpr int SHARES = THREADS > CELLS ? THREADS / CELLS : 1, SHARE = (BOTH + SHARES - 1) / SHARES;

struct Given {  // vectors (batch, n), numbers (batch), memory (batch, INSTANCE) and (batch, 8, n)
    const float *g, *lam, *step, *x, *x_before, *g_before, *G_before, *side_before, *G_first, *t, *momentum, *fresh;
    const float *instance_h, *instance_c, *coordinate_h, *coordinate_c;
    // (BOTH + 1, CELLS) gates, the bias last; (INSTANCE + 1, OUTPUTS); (INSTANCE + 1, GATES); the coordinates' weights
    const float *gates, *out, *told, *flat;
};
struct Made {  // base and g where there is a conjugate share: x and its gradient after the line search
    float *x, *G, *side, *R, *P, *G_first, *t, *momentum, *fresh, *instance_h, *instance_c;
    float *coordinate_h, *coordinate_c, *base, *g;
};

__device__ __forceinline__ Point<float> point(const Given& in, const Instance<float>& own, long long at) {
    const float x = in.x[at], g = in.g[at], x_before = in.x_before[at], g_before = in.g_before[at];
    const float G_before = in.G_before[at], side_before = in.side_before[at];
    return point(x, g, x - x_before, g_before, G_before, side_before, own);
}

// The sum over the block, in every thread; `parts` has WARPS numbers and may be used again after the next barrier.
__device__ __forceinline__ float block_sum(float value, float* parts) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < WARPS; ++w) total += parts[w];
    return total;
}

// The step of a coordinate; returns its part of <(y - x+) / R, x+ - x>
__device__ __forceinline__ float written(const Point<float>& p, const Diagonals<float>& by, float beta,
                                         const Instance<float>& own, const Made& out, long long at) {
    const Moved<float> made = moved(p, by, beta, CONJUGATE, own);
    if (CONJUGATE) out.base[at] = p.y + made.searched * p.d, out.g[at] = made.g;
    out.x[at] = made.next, out.G[at] = p.G, out.side[at] = p.side, out.R[at] = by.R, out.P[at] = made.P;
    return made.against;
}

__device__ void sure_instance(const Given& in, const Made& out, int n, int many) {
    __shared__ __align__(16) float weights[COORDINATE ? WEIGHTS : 1];
    __shared__ float parts[WARPS][SLOTS], sums[SLOTS], seen[BOTH], gates[SHARES][CELLS], told[GATES + OUTPUTS];
    __shared__ float spare[2][WARPS];
    __shared__ Instance<float> common;
    const long long i = blockIdx.x, start = i * n;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (COORDINATE)
        for (int k = threadIdx.x; k < WEIGHTS; k += THREADS) weights[k] = in.flat[k];
    if (COORDINATE) announce_all(in.coordinate_h + start * UNITS, UNITS * n);
    if (COORDINATE) announce_all(in.coordinate_c + start * UNITS, UNITS * n);
    for (int k = threadIdx.x; k < INSTANCE; k += THREADS) seen[SEEN + k] = in.instance_h[i * INSTANCE + k];
    Instance<float> own;
    own.lam = in.lam[many ? i : 0], own.fresh = in.fresh[i] > 0.f;
    own.inverse_L = in.step[i], own.L = 1.f / own.inverse_L;

    float sum[SLOTS / 8][8];  // the last one remains zero
#pragma unroll
    for (int k = 0; k < SLOTS; ++k) sum[k / 8][k % 8] = 0.f;
#pragma unroll 2
    for (int j = threadIdx.x; j < n; j += THREADS) add(point(in, own, start + j), sum[0]);
#pragma unroll
    for (int k = 0; k < SLOTS / 8; ++k) {
        const float total = eight_sums(sum[k]);
        if (lane < 8) parts[warp][8 * k + lane] = total;
    }
    __syncthreads();
    if (threadIdx.x < SLOTS) {
        float total = 0.f;
        for (int w = 0; w < WARPS; ++w) total += parts[w][threadIdx.x];
        sums[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float G_first = in.G_first[i];
        instance_features(sums, (float)n, in.momentum[i], in.fresh[i], own, G_first, seen);
        out.G_first[i] = G_first;
        common = own;
    }
    __syncthreads();

    for (int place = threadIdx.x; place < SHARES * CELLS; place += THREADS) {
        const int k = place % CELLS, share = place / CELLS;
        float total = share == 0 ? in.gates[BOTH * CELLS + k] : 0.f;
#pragma unroll
        for (int step = 0; step < SHARE; ++step) {
            const int from = share * SHARE + step;
            if (from < BOTH) total += in.gates[from * CELLS + k] * seen[from];
        }
        gates[share][k] = total;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < INSTANCE; k += THREADS) {
        float gate[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            gate[part] = 0.f;
#pragma unroll
            for (int share = 0; share < SHARES; ++share) gate[part] += gates[share][part * INSTANCE + k];
        }
        const float c = sigmoid(gate[1]) * in.instance_c[i * INSTANCE + k] + sigmoid(gate[0]) * hyperbolic(gate[2]);
        const float h = sigmoid(gate[3]) * hyperbolic(c);
        out.instance_c[i * INSTANCE + k] = c, out.instance_h[i * INSTANCE + k] = h;
        seen[SEEN + k] = h;
    }
    __syncthreads();
    if (threadIdx.x < GATES + OUTPUTS) {
        const int width = threadIdx.x < GATES ? GATES : OUTPUTS;
        const int k = threadIdx.x < GATES ? threadIdx.x : threadIdx.x - GATES;
        const float* from = threadIdx.x < GATES ? in.told : in.out;
        if (COORDINATE || threadIdx.x >= GATES) {
            float total = from[INSTANCE * width + k];
#pragma unroll
            for (int unit = 0; unit < INSTANCE; ++unit) total += from[unit * width + k] * seen[SEEN + unit];
            told[threadIdx.x] = total;
        }
    }
    __syncthreads();

    own = common;
    float against = 0.f, turned = 0.f, beta = 0.f;
    if (COORDINATE) {
        const float *h = in.coordinate_h + start * UNITS, *c = in.coordinate_c + start * UNITS;
        for (int first = threadIdx.x; first < n; first += PAIR * THREADS) {
            float signal[PAIR][UNITS], cell[PAIR][UNITS], features[PAIR][WIDTH], o[PAIR][OUTPUTS];
            read_rows(h, n, first, signal), read_rows(c, n, first, cell);
#pragma unroll
            for (int e = 0; e < PAIR; ++e) {
                const int j = first + e * THREADS;
                coordinate_features(point(in, own, start + (j < n ? j : first)), own, features[e]);
#pragma unroll
                for (int k = 0; k < UNITS; ++k) features[e][FEATURES + k] = signal[e][k];
            }
            coordinate_network(weights, told, told + GATES, features, cell, signal, o);
            write_rows(signal, n, first, out.coordinate_h + start * UNITS);
            write_rows(cell, n, first, out.coordinate_c + start * UNITS);
#pragma unroll
            for (int e = 0; e < PAIR; ++e) {
                if (first + e * THREADS >= n) continue;
                const long long at = start + first + e * THREADS;
                const Point<float> p = point(in, own, at);  // read again: there were not enough registers to keep it
                const Diagonals<float> by = diagonals(o[e], CONJUGATE, own);
                if (CONJUGATE) {  // beta needs all R: put aside where the results will be
                    out.R[at] = by.R, out.P[at] = by.P, out.x[at] = by.ahead, out.base[at] = by.share;
                    if (p.stable) turned += turning(p, by.R, own.line);
                } else {
                    against += written(p, by, 0.f, own, out, at);
                }
            }
        }
        if (CONJUGATE) beta = conjugate_beta(block_sum(turned, spare[0]), own.curvature);
    }
    Diagonals<float> same;
    if (!COORDINATE) {
        same = diagonals(told + GATES, CONJUGATE, own);
        beta = conjugate_beta(same.R * own.turned, own.curvature);
    }
    if (CONJUGATE || !COORDINATE)
        for (int j = threadIdx.x; j < n; j += THREADS) {
            const long long at = start + j;
            Diagonals<float> by = same;
            if (COORDINATE) by = {out.R[at], out.P[at], out.x[at], out.base[at]};
            against += written(point(in, own, at), by, beta, own, out, at);
        }
    against = block_sum(against, spare[1]);
    if (threadIdx.x == 0) {
        const float t = against > 0.f ? 1.f : in.t[i], t_next = next_pace(t);
        out.t[i] = t_next, out.momentum[i] = momentum_of(t, t_next), out.fresh[i] = 0.f;
    }
}

// lam: one number, or with many = 1 one per instance
extern "C" __global__ void __launch_bounds__(THREADS, (COORDINATE ? 512 : 1024) / THREADS)
sure_step(const float* g, const float* lam, const float* step, const float* x, const float* x_before,
          const float* g_before, const float* G_before, const float* side_before, const float* G_first,
          const float* t, const float* momentum, const float* fresh, const float* instance_h, const float* instance_c,
          const float* coordinate_h, const float* coordinate_c, const float* gates, const float* out,
          const float* told, const float* flat, float* x_new, float* G_new, float* side_new, float* R, float* P,
          float* G_first_new, float* t_new, float* momentum_new, float* fresh_new, float* instance_h_new,
          float* instance_c_new, float* coordinate_h_new, float* coordinate_c_new, float* base_new, float* g_new, int n,
          int many) {
    const Given in{g, lam, step, x, x_before, g_before, G_before, side_before, G_first, t, momentum, fresh, instance_h,
                   instance_c, coordinate_h, coordinate_c, gates, out, told, flat};
    const Made made{x_new, G_new, side_new, R, P, G_first_new, t_new, momentum_new, fresh_new, instance_h_new,
                    instance_c_new, coordinate_h_new, coordinate_c_new, base_new, g_new};
    sure_instance(in, made, n, many);
}
