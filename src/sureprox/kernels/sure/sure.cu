// A step of Sure for r = lam |x|_1 from a known gradient, one block per instance: see Sure.step and sure_features.py,
// which say why. First the inner products of an instance, then its LSTM, then its coordinates.
//
// Compile-time: OUTPUTS: 3, or 4 with a conjugate share; INSTANCE: units of the LSTM of an instance;
// COORDINATE: 8, or 0 where all coordinates of an instance get the same; BLOCK_THREADS: 64 or more.

#include "sure/coordinate.cu"
#include "runtime/warp.cu"

#ifndef EMULATED  // tests run the rest of this file on a CPU
__device__ __forceinline__ float quick_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float quick_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

constexpr int WARPS = THREADS / 32, SUMS = 16, SEEN = 14, BOTH = SEEN + INSTANCE, CELLS = 4 * INSTANCE;
constexpr bool CONJUGATE = OUTPUTS == 4;
// as in sure.py and sure_features.py
constexpr float LOG2_REACH = 3.f, LEAST_MOMENTUM = 0.02f, LARGEST_MOMENTUM = 0.995f, RELUCTANCE = 1.f;
constexpr float FLOOR = 9.8607613152626476e-32f, LOG10_2 = 0.30102999566398120f;
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

struct Point {  // what there is to know about a coordinate
    float x, g, d, dg, G, G_before, side, side_before, slope, size;
    bool smooth, stable;
};
struct Instance {
    float lam, inverse_L, L;
    bool fresh;
    float line, curvature, turned, logit, scale_G, scale_d, scale_q;
    float R, P, ahead, share;  // of all coordinates, where they have no LSTM
};

__device__ __forceinline__ float cut(float v, float low, float high) { return v < low ? low : (v > high ? high : v); }
__device__ __forceinline__ float sign(float v) { return v > 0.f ? 1.f : (v < 0.f ? -1.f : 0.f); }
__device__ __forceinline__ float soft_threshold(float v, float by) { return v - cut(v, -by, by); }
// To 3e-7, not to the last digit of small ones: enough for features
__device__ __forceinline__ float quotient(float a, float b) { return a * reciprocal(b); }
__device__ __forceinline__ float log_within(float v, float low, float high) {
    return LOG10_2 * quick_log2(cut(v, low, high));
}
__device__ __forceinline__ float half_inverse_sinh(float v) {
    return copysignf(0.5f / LOG2_E * quick_log2(fabsf(v) + quick_root(1.f + v * v)), v);
}

__device__ __forceinline__ Point point(const Given& in, const Instance& own, long long at) {
    Point p;
    p.x = in.x[at], p.g = in.g[at];
    const float x_before = in.x_before[at], g_before = in.g_before[at];
    const float G_before = in.G_before[at], side_before = in.side_before[at];
    p.d = p.x - x_before, p.dg = own.fresh ? 0.f : p.g - g_before;
    const float middle = own.lam * sign(p.x), kink = p.x == 0.f ? own.lam : 0.f;
    const float low = middle - kink, high = middle + kink;
    p.size = fmaxf(fabsf(low), fabsf(high));
    p.smooth = low == high, p.side = sign(low + high), p.slope = p.smooth ? p.g + low : 0.f;
    p.G = (p.x - soft_threshold(p.x - own.inverse_L * p.g, own.lam * own.inverse_L)) * own.L;
    p.G_before = own.fresh ? p.G : G_before, p.side_before = own.fresh ? p.side : side_before;
    p.stable = p.smooth && p.side == p.side_before;
    return p;
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

// What the sums say, and the features of the instance, by one thread
__device__ void instance_features(const Given& in, const Made& out, const float* s, int n, Instance& own, float* seen) {
    const long long i = blockIdx.x;
    const float GG = s[0], PP = s[1], GP = s[2], Gd = s[3], dd = s[4], dq = s[5], qq = s[6];
    const float sd = s[7], sq = s[8], dd_on = s[9], dq_on = s[10], qq_on = s[11], L = own.L;
    const float least = 1e-5f * L * dd_on, count = (float)n;
    own.curvature = (dq_on < least ? least : dq_on) + FLOOR;
    own.line = cut(-sd / own.curvature, -1.f, 20.f);
    own.turned = sq + own.line * qq_on;
    const float beta = cut(own.turned / own.curvature / L, -5.f, 5.f);
    const float G = quick_root(GG + FLOOR), P = quick_root(PP + FLOOR), d = quick_root(dd + FLOOR);
    const float whole = quick_root(count);
    own.scale_G = quotient(whole, G), own.scale_d = quotient(whole, d);
    own.scale_q = quotient(whole, quick_root(qq + FLOOR));
    const float momentum = in.momentum[i], inside = cut(momentum, LEAST_MOMENTUM, LARGEST_MOMENTUM);
    own.logit = quick_log2(quotient(inside, 1.f - inside)) / LOG2_E;

    const float first = own.fresh ? G : in.G_first[i], Ldq = L * dq, part = 1.f / count;
    out.G_first[i] = first;
    seen[0] = half_inverse_sinh(own.line);
    seen[1] = half_inverse_sinh(beta);
    seen[2] = 0.3f * log_within(quotient(G, first), 1e-9f, 1e3f);
    seen[3] = 2.f * log_within(quotient(G, P), 0.1f, 10.f);
    seen[4] = quotient(Gd, d * G);
    seen[5] = quotient(GP, G * P);
    seen[6] = 0.5f * log_within(quotient(dq, L * dd + FLOOR), 1e-5f, 1.f) + 1.f;
    seen[7] = 0.5f * log_within(quotient(qq, Ldq < FLOOR ? FLOOR : Ldq), 1e-4f, 1.f) + 0.5f;
    seen[8] = 0.5f * log_within(quotient(L * d, G), 1e-3f, 1e4f) - 0.3f;
    seen[9] = 2.f * (s[12] * part) - 0.5f;
    seen[10] = 0.5f * log_within(s[13] * part + 1e-3f, 0.f, 2.f) + 1.f;
    seen[11] = 0.2f * log_within(quotient(G, quick_root(s[14]) + FLOOR), 1e-8f, 1e6f) + 0.3f;
    seen[12] = momentum;
    seen[13] = in.fresh[i];
}

__device__ __forceinline__ void coordinate_features(const Point& p, const Instance& own, float* to) {
    const float scaled_G = own.scale_G * p.G, scaled_d = own.scale_d * p.d, size = fabsf(p.g), span = p.size + size;
    to[0] = p.g * reciprocal(span < FLOOR ? FLOOR : span);
    to[1] = p.side;
    to[2] = p.smooth ? 0.5f : -0.5f;
    to[3] = half_inverse_sinh(scaled_G);
    to[4] = half_inverse_sinh(scaled_d);
    to[5] = half_inverse_sinh(own.scale_q * p.dg);
    to[6] = half_inverse_sinh(scaled_G * scaled_d);
    to[7] = cut((size - p.size) * reciprocal(fmaxf(p.size, FLOOR)), -1.f, 1.f);
}

// R, P, how far the gradient is extrapolated, and the conjugate share, from the outputs of a network
__device__ __forceinline__ void diagonals(const float* o, const Instance& own, float& R, float& P, float& ahead,
                                          float& share) {
    R = own.inverse_L * power_of_two(LOG2_REACH * hyperbolic(o[0]));
    P = sigmoid(own.logit + o[1]);
    ahead = 2.f * sigmoid(o[2]) * P;
    share = CONJUGATE ? sigmoid(o[OUTPUTS - 1] - RELUCTANCE) : 0.f;
}

// The step of a coordinate; returns its part of <(y - x+) / R, x+ - x>
__device__ __forceinline__ float moved(const Point& p, const Instance& own, float beta, float R, float P, float ahead,
                                       float share, const Made& out, long long at) {
    float base = p.x, g = p.g;
    if (CONJUGATE) {
        share = p.stable ? share : 0.f;
        const float searched = share * own.line;
        P += share * (beta - P), ahead *= 1.f - share;
        base += searched * p.d, g += searched * p.dg;
        out.base[at] = base, out.g[at] = g;
    }
    const float y = base + P * p.d, next = soft_threshold(y - R * (g + ahead * p.dg), own.lam * R);
    out.x[at] = next, out.G[at] = p.G, out.side[at] = p.side, out.R[at] = R, out.P[at] = P;
    return (y - next) * reciprocal(R) * (next - p.x);
}

__device__ void sure_instance(const Given& in, const Made& out, int n, int many) {
    __shared__ __align__(16) float weights[COORDINATE ? WEIGHTS : 1];
    __shared__ float parts[WARPS][SUMS], sums[SUMS], seen[BOTH], gates[SHARES][CELLS], told[GATES + OUTPUTS];
    __shared__ float spare[2][WARPS];
    __shared__ Instance common;
    const long long i = blockIdx.x, start = i * n;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (COORDINATE)
        for (int k = threadIdx.x; k < WEIGHTS; k += THREADS) weights[k] = in.flat[k];
    if (COORDINATE) announce_all(in.coordinate_h + start * UNITS, UNITS * n);
    if (COORDINATE) announce_all(in.coordinate_c + start * UNITS, UNITS * n);
    for (int k = threadIdx.x; k < INSTANCE; k += THREADS) seen[SEEN + k] = in.instance_h[i * INSTANCE + k];
    Instance own;
    own.lam = in.lam[many ? i : 0], own.fresh = in.fresh[i] > 0.f;
    own.inverse_L = in.step[i], own.L = 1.f / own.inverse_L;

    float sum[SUMS / 8][8];  // the last one remains zero
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sum[k / 8][k % 8] = 0.f;
#pragma unroll 2
    for (int j = threadIdx.x; j < n; j += THREADS) {
        const Point p = point(in, own, start + j);
        float(&low)[8] = sum[0], (&high)[8] = sum[1];
        low[0] += p.G * p.G, low[1] += p.G_before * p.G_before, low[2] += p.G * p.G_before, low[3] += p.G * p.d;
        low[4] += p.d * p.d, low[5] += p.d * p.dg, low[6] += p.dg * p.dg;
        const float d = p.stable ? p.d : 0.f, dg = p.stable ? p.dg : 0.f;
        low[7] += p.slope * d, high[0] += p.slope * dg, high[1] += p.d * d, high[2] += p.d * dg, high[3] += p.dg * dg;
        high[4] += p.smooth ? 1.f : 0.f, high[5] += p.side != p.side_before ? 1.f : 0.f, high[6] += p.size * p.size;
    }
#pragma unroll
    for (int k = 0; k < SUMS / 8; ++k) {
        const float total = eight_sums(sum[k]);
        if (lane < 8) parts[warp][8 * k + lane] = total;
    }
    __syncthreads();
    if (threadIdx.x < SUMS) {
        float total = 0.f;
        for (int w = 0; w < WARPS; ++w) total += parts[w][threadIdx.x];
        sums[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        instance_features(in, out, sums, n, own, seen);
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
                const Point p = point(in, own, at);  // read again: there were not enough registers to keep it
                float R, P, ahead, share;
                diagonals(o[e], own, R, P, ahead, share);
                if (CONJUGATE) {  // beta needs all R: put aside where the results will be
                    out.R[at] = R, out.P[at] = P, out.x[at] = ahead, out.base[at] = share;
                    if (p.stable) turned += R * ((p.slope + own.line * p.dg) * p.dg);
                } else {
                    against += moved(p, own, 0.f, R, P, ahead, share, out, at);
                }
            }
        }
        if (CONJUGATE) beta = cut(block_sum(turned, spare[0]) / own.curvature, -5.f, 5.f);
    }
    if (!COORDINATE) {
        diagonals(told + GATES, own, own.R, own.P, own.ahead, own.share);
        beta = cut(own.R * own.turned / own.curvature, -5.f, 5.f);
    }
    if (CONJUGATE || !COORDINATE)
        for (int j = threadIdx.x; j < n; j += THREADS) {
            const long long at = start + j;
            float R = own.R, P = own.P, ahead = own.ahead, share = own.share;
            if (COORDINATE) R = out.R[at], P = out.P[at], ahead = out.x[at], share = out.base[at];
            against += moved(point(in, own, at), own, beta, R, P, ahead, share, out, at);
        }
    against = block_sum(against, spare[1]);
    if (threadIdx.x == 0) {
        const float t = against > 0.f ? 1.f : in.t[i], t_next = (1.f + sqrtf(1.f + 4.f * (t * t))) / 2.f;
        out.t[i] = t_next, out.momentum[i] = (t - 1.f) / t_next, out.fresh[i] = 0.f;
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
