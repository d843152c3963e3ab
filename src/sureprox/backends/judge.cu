// What an iteration of certified tracks on a LASSO problem has shown, and what becomes of them: one block per instance.
//
// First all sums that the comparison of the K new points with where they came from and with the best point needs, then
// the decisions (see Stacked.compare, best_of, raised and Tracks.moved, which say why), then everything is written.
//
// Compile-time: POINTS = K, FIRST = 1 if point 0 belongs to a wrapped optimizer and 0 if all are FISTA's.

constexpr int THREADS = 256, WARPS = THREADS / 32, TRACKS = POINTS - FIRST, SUMS = 8, MARKS = 5;
constexpr float EPS = 1.1920928955078125e-7f, TINY = 1.17549435082228750797e-38f;
// as in stacked.py and tracks.py
constexpr float ERROR = 1.f, VALUE_ERROR = 8.f, TRIVIAL = 16.f, STILL = 8.f, GROWTH = 1.02f;

struct Given {  // what there is before: points (batch, K, .), tracks (batch, TRACKS, .)
    const float *x, *z, *ahead, *g_ahead, *t_ahead, *momentum;            // of this iteration
    const float *inner_x, *inner_z, *y, *zy, *g, *track_x, *track_z, *t;  // where it started, and the tracks before it
    const float *best_x, *best_z, *step_size, *lam, *above, *weight;
    const long long *track, *rejected, *idle;
};
struct Made {
    float *best_x, *best_z, *track_x, *track_z, *y, *zy, *t, *g, *step_size, *above, *weight;
    long long *track, *rejected, *idle;
};

__device__ __forceinline__ bool finite(float v) { return fabsf(v) <= 3.4028235e38f; }

__device__ void judge_instance(const Given& in, const Made& out, int n, int m) {
    __shared__ float parts[WARPS][POINTS * SUMS], sums[POINTS * SUMS];
    __shared__ int winner, accepted[TRACKS];
    const long long i = blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *best_x = in.best_x + i * n, *best_z = in.best_z + i * m;

    float sum[POINTS * SUMS];
#pragma unroll
    for (int p = 0; p < POINTS; ++p) {
        const bool own = p < FIRST;
        const float* x = in.x + (i * POINTS + p) * n;
        const float* g = in.g + (i * POINTS + p) * n;
        const float* from = own ? in.inner_x + i * n : in.y + (i * TRACKS + p - FIRST) * n;
        float length = 0.f, step = 0.f, ahead = 0.f, slope = 0.f, penalty = 0.f;
        for (int j = threadIdx.x; j < n; j += THREADS) {
            const float here = x[j], lead = here - best_x[j], moved = here - from[j];
            length += here * here, step += moved * moved, ahead += lead * lead, slope += g[j] * lead;
            penalty += fabsf(here) - fabsf(best_x[j]);
        }
        const float* z = in.z + (i * POINTS + p) * m;
        const float* base = own ? in.inner_z + i * m : in.zy + (i * TRACKS + p - FIRST) * m;
        float bent = 0.f, bent_best = 0.f, size = 0.f;
        for (int j = threadIdx.x; j < m; j += THREADS) {
            const float at = base[j], d = z[j] - at, e = best_z[j] - at;
            bent += d * d, bent_best += e * e, size += at * at;
        }
        float* mine = sum + p * SUMS;
        mine[0] = length, mine[1] = step, mine[2] = ahead, mine[3] = slope, mine[4] = penalty;
        mine[5] = bent, mine[6] = bent_best, mine[7] = size;
    }
#pragma unroll
    for (int k = 0; k < POINTS * SUMS; ++k) {
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], apart);
        if (lane == 0) parts[warp][k] = sum[k];
    }
    __syncthreads();
    if (threadIdx.x < POINTS * SUMS) {
        float total = 0.f;
        for (int w = 0; w < WARPS; ++w) total += parts[w][threadIdx.x];
        sums[threadIdx.x] = total;
    }
    __syncthreads();

    if (threadIdx.x == 0) {
        const float L = 1.f / in.step_size[i], spread = sqrtf(L);
        float above[POINTS], curvature[POINTS], move[POINTS];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {
            const float* s = sums + p * SUMS;
            const float length = sqrtf(s[0]), step = sqrtf(s[1]), reach = spread * sqrtf(s[2]), size = sqrtf(s[7]);
            const float turn = sqrtf(s[5]), turn_best = sqrtf(s[6]), penalty = in.lam[i] * s[4];
            const float scale = 2.f * size + 2.f * spread * length + reach;
            const float error = ERROR * EPS * (size * reach + (turn + turn_best) * scale);
            float value = s[3] + 0.5f * (s[5] - s[6]) + error + penalty + VALUE_ERROR * EPS * fabsf(penalty);
            above[p] = finite(value + length) ? value : __uint_as_float(0x7f800000u);  // infinity
            const float bend = turn - TRIVIAL * EPS * scale;
            move[p] = step / (length < TINY ? TINY : length);
            curvature[p] = move[p] <= TRIVIAL * EPS ? 0.f : (bend < 0.f ? 0.f : bend * bend) / (step * step);
        }
        int first = 0;
        float nearest = above[FIRST];
#pragma unroll
        for (int p = 1; p < POINTS; ++p) first = above[p] < above[first] ? p : first;
#pragma unroll
        for (int p = FIRST + 1; p < POINTS; ++p) nearest = above[p] < nearest ? above[p] : nearest;
        const bool better = above[first] < 0.f;
        const float drop = better ? -above[first] : 0.f;
        winner = better ? first : -1;

        const long long track = better ? first + 2 - FIRST : in.track[i];
        const int finder = track == 0 ? POINTS - 1 : (int)track - 2 + FIRST;
        out.track[i] = track;
        out.idle[i] = !better && move[finder] <= STILL * EPS ? in.idle[i] + 1 : 0;

        const float* known = in.above + i * MARKS;  // learned, classical, mark, origin, now
        float* marks = out.above + i * MARKS;
        const float learned = known[0] + drop, classical = known[1] + drop, nearest_now = nearest + drop;
        const float now = FIRST ? above[0] + drop : learned;
        marks[0] = now < learned ? now : learned;
        marks[1] = nearest_now < classical ? nearest_now : classical;
        marks[2] = known[2] + drop, marks[3] = known[3] + drop, marks[4] = now;

        bool all = true;
        float seen = 0.f;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            const float bent = curvature[p + FIRST];
            accepted[p] = bent <= L * (1.f + 8.f * EPS);  // a NaN is not
            all = all && accepted[p];
            if (finite(bent) && bent > seen) seen = bent;
        }
        const float raised = 2.f * L > GROWTH * seen ? 2.f * L : GROWTH * seen;
        out.step_size[i] = 1.f / (all ? L : raised);
        out.rejected[i] = in.rejected[i] + (all ? 0 : 1);
        const float t = in.t[i * TRACKS];
        out.weight[i] = accepted[0] ? t * t / L : in.weight[i];
#pragma unroll
        for (int p = 0; p < TRACKS; ++p)
            out.t[i * TRACKS + p] = accepted[p] ? in.t_ahead[i * TRACKS + p] : in.t[i * TRACKS + p];
    }
    __syncthreads();

    const float* x = winner < 0 ? best_x : in.x + (i * POINTS + winner) * n;
    const float* z = winner < 0 ? best_z : in.z + (i * POINTS + winner) * m;
    for (int j = threadIdx.x; j < n; j += THREADS) out.best_x[i * n + j] = x[j];
    for (int j = threadIdx.x; j < m; j += THREADS) out.best_z[i * m + j] = z[j];
    if (FIRST)
        for (int j = threadIdx.x; j < n; j += THREADS)
            out.g[i * POINTS * n + j] = in.g_ahead[i * POINTS * n + j];
#pragma unroll
    for (int p = 0; p < TRACKS; ++p) {
        const bool taken = accepted[p];
        const long long wide = (i * POINTS + p + FIRST) * n, tall = (i * POINTS + p + FIRST) * m;
        const long long at = (i * TRACKS + p) * n, row = (i * TRACKS + p) * m;
        const float momentum = in.momentum[i * TRACKS + p];
        for (int j = threadIdx.x; j < n; j += THREADS) {
            const float here = in.x[wide + j], before = in.track_x[at + j];
            out.track_x[at + j] = taken ? here : before;
            out.y[at + j] = taken ? here + momentum * (here - before) : in.y[at + j];
            out.g[wide + j] = taken ? in.g_ahead[wide + j] : in.g[wide + j];
        }
        for (int j = threadIdx.x; j < m; j += THREADS) {
            out.track_z[row + j] = taken ? in.z[tall + j] : in.track_z[row + j];
            out.zy[row + j] = taken ? in.ahead[tall + j] : in.zy[row + j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
judge(const float* x, const float* z, const float* ahead, const float* g_ahead, const float* t_ahead,
      const float* momentum, const float* inner_x, const float* inner_z, const float* y, const float* zy,
      const float* g, const float* track_x, const float* track_z, const float* t, const float* best_x,
      const float* best_z, const float* step_size, const float* lam, const float* above, const float* weight,
      const long long* track, const long long* rejected, const long long* idle, float* best_x_new, float* best_z_new,
      float* track_x_new, float* track_z_new, float* y_new, float* zy_new, float* t_new, float* g_new,
      float* step_size_new, float* above_new, float* weight_new, long long* track_new, long long* rejected_new,
      long long* idle_new, int n, int m) {
    const Given in{x, z, ahead, g_ahead, t_ahead, momentum, inner_x, inner_z, y, zy, g, track_x, track_z, t, best_x,
                   best_z, step_size, lam, above, weight, track, rejected, idle};
    const Made out{best_x_new, best_z_new, track_x_new, track_z_new, y_new, zy_new, t_new, g_new, step_size_new,
                   above_new, weight_new, track_new, rejected_new, idle_new};
    judge_instance(in, out, n, m);
}
