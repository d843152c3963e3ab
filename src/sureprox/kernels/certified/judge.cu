// What an iteration of certified tracks on a LASSO problem has shown, and what becomes of them: one block per instance.
//
// First all sums that the comparison of the K new points with where they came from and with the best point needs, then
// the decisions (see Stacked.compare, best_of, adapted and Tracks.moved, which say why), then everything is written.
//
// Compile-time: POINTS = K, FIRST = 1 if point 0 belongs to a wrapped optimizer and 0 if all are FISTA's.

#include "runtime/device.cu"
#include "certified/rules.h"
#include "runtime/warp.cu"

constexpr int THREADS = 256, WARPS = THREADS / 32, TRACKS = POINTS - FIRST, SUMS = POINT_SUMS;

struct Given {  // what there is before: points (batch, K, .), tracks (batch, TRACKS, .)
    const float *x, *z, *ahead, *g_ahead, *t_ahead, *momentum;            // of this iteration
    const float *inner_x, *inner_z, *y, *zy, *g, *track_x, *track_z, *t;  // where it started, and the tracks before it
    const float *best_x, *best_z, *step_size, *lam, *above, *weight;
    const long long *track, *rejected, *idle;
};
struct Made {
    float *best_x, *best_z, *track_x, *track_z, *y, *zy, *t, *g, *step_size, *above, *weight, *inner_z;
    long long *track, *rejected, *idle;
};

__device__ void judge_instance(const Given& in, const Made& out, int n, int m) {
    __shared__ float parts[WARPS][POINTS * SUMS], sums[POINTS * SUMS];
    __shared__ int winner, accepted[TRACKS];
    const long long i = blockIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *best_x = in.best_x + i * n, *best_z = in.best_z + i * m;

    announce_all(in.g_ahead + i * POINTS * n, POINTS * n);
    announce_all(in.track_x + i * TRACKS * n, TRACKS * n);
    announce_all(in.ahead + i * POINTS * m, POINTS * m);
    announce_all(in.track_z + i * TRACKS * m, TRACKS * m);

    float sum[POINTS][SUMS];
#pragma unroll
    for (int k = 0; k < POINTS * SUMS; ++k) sum[k / SUMS][k % SUMS] = 0.f;
    const float *x_all = in.x + i * POINTS * n, *g_all = in.g + i * POINTS * n, *y_all = in.y + i * TRACKS * n;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        const float best = best_x[j];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {  // |x|^2, |x - from|^2, |x - best|^2, <g, x - best>, |x|_1 - |best|_1
            const float from = p < FIRST ? in.inner_x[i * n + j] : y_all[(p - FIRST) * n + j];
            const float here = x_all[p * n + j], lead = here - best, moved = here - from;
            float(&mine)[SUMS] = sum[p];
            mine[0] += here * here, mine[1] += moved * moved, mine[2] += lead * lead;
            mine[3] += g_all[p * n + j] * lead, mine[4] += fabsf(here) - fabsf(best);
        }
    }
    const float *z_all = in.z + i * POINTS * m, *zy_all = in.zy + i * TRACKS * m;
    for (int j = threadIdx.x; j < m; j += THREADS) {
        const float best = best_z[j];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {  // |z - from|^2, |best - from|^2, |from|^2
            const float from = p < FIRST ? in.inner_z[i * m + j] : zy_all[(p - FIRST) * m + j];
            const float d = z_all[p * m + j] - from, e = best - from;
            float(&mine)[SUMS] = sum[p];
            mine[5] += d * d, mine[6] += e * e, mine[7] += from * from;
        }
    }
#pragma unroll
    for (int p = 0; p < POINTS; ++p) {
        const float total = eight_sums(sum[p]);
        if (lane < SUMS) parts[warp][p * SUMS + lane] = total;
    }
    __syncthreads();
    if (threadIdx.x < POINTS * SUMS) {
        float total = 0.f;
        for (int w = 0; w < WARPS; ++w) total += parts[w][threadIdx.x];
        sums[threadIdx.x] = total;
    }
    __syncthreads();

    if (threadIdx.x == 0) {
        const float L = 1.f / in.step_size[i];
        float above[POINTS], curvature[POINTS], move[POINTS];
#pragma unroll
        for (int p = 0; p < POINTS; ++p) {
            const Shown<float> seen = shown(sums + p * SUMS, L, in.lam[i]);
            above[p] = seen.above, curvature[p] = seen.curvature, move[p] = seen.move;
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

        const long long track = better ? track_of<long long>(first, FIRST) : in.track[i];
        const int finder = finder_of(track, POINTS, FIRST);
        out.track[i] = track;
        bool calm = false;
#pragma unroll
        for (int p = FIRST; p < POINTS; ++p) calm = calm || is_still(move[p]);
        out.idle[i] = next_idle(in.idle[i], better, calm, is_still(move[finder]));
        next_marks(in.above + i * MARKS, drop, nearest, FIRST, above[0], out.above + i * MARKS);

        bool all = true;
        float seen = 0.f;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            const float bent = curvature[p + FIRST];
            accepted[p] = is_taken(bent, L);
            all = all && accepted[p];
            if (finite(bent) && bent > seen) seen = bent;
        }
        out.step_size[i] = 1.f / (all ? L : raised(L, seen));
        out.rejected[i] = in.rejected[i] + (all ? 0 : 1);
        const float t = in.t[i * TRACKS];
        out.weight[i] = accepted[0] ? t * t / L : in.weight[i];
#pragma unroll
        for (int p = 0; p < TRACKS; ++p)
            out.t[i * TRACKS + p] = accepted[p] ? in.t_ahead[i * TRACKS + p] : in.t[i * TRACKS + p];
    }
    __syncthreads();

    // everything of a place is read before any of it is written: reads do not wait for each other then
    const float* x = winner < 0 ? best_x : x_all + winner * n;
    const float* z = winner < 0 ? best_z : z_all + winner * m;
    const float* g_ahead = in.g_ahead + i * POINTS * n;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        const float best = x[j], own_slope = FIRST ? g_ahead[j] : 0.f;
        float here[TRACKS], at[TRACKS], slope[TRACKS];
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            const bool taken = accepted[p];
            const int place = (p + FIRST) * n + j;
            const float new_x = x_all[place], before = in.track_x[(i * TRACKS + p) * n + j];
            here[p] = taken ? new_x : before;
            at[p] = taken ? new_x + in.momentum[i * TRACKS + p] * (new_x - before) : y_all[p * n + j];
            slope[p] = taken ? g_ahead[place] : g_all[place];
        }
        out.best_x[i * n + j] = best;
        if (FIRST) out.g[i * POINTS * n + j] = own_slope;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            out.track_x[(i * TRACKS + p) * n + j] = here[p], out.y[(i * TRACKS + p) * n + j] = at[p];
            out.g[(i * POINTS + p + FIRST) * n + j] = slope[p];
        }
    }
    for (int j = threadIdx.x; j < m; j += THREADS) {
        const float best = z[j], own = z_all[j];
        float here[TRACKS], at[TRACKS];
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            const int place = (p + FIRST) * m + j;
            here[p] = accepted[p] ? z_all[place] : in.track_z[(i * TRACKS + p) * m + j];
            at[p] = accepted[p] ? in.ahead[i * POINTS * m + place] : zy_all[p * m + j];
        }
        out.best_z[i * m + j] = best, out.inner_z[i * m + j] = own;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p)
            out.track_z[(i * TRACKS + p) * m + j] = here[p], out.zy[(i * TRACKS + p) * m + j] = at[p];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
judge(const float* x, const float* z, const float* ahead, const float* g_ahead, const float* t_ahead,
      const float* momentum, const float* inner_x, const float* inner_z, const float* y, const float* zy,
      const float* g, const float* track_x, const float* track_z, const float* t, const float* best_x,
      const float* best_z, const float* step_size, const float* lam, const float* above, const float* weight,
      const long long* track, const long long* rejected, const long long* idle, float* best_x_new, float* best_z_new,
      float* track_x_new, float* track_z_new, float* y_new, float* zy_new, float* t_new, float* g_new,
      float* step_size_new, float* above_new, float* weight_new, float* inner_z_new, long long* track_new,
      long long* rejected_new, long long* idle_new, int n, int m) {
    const Given in{x, z, ahead, g_ahead, t_ahead, momentum, inner_x, inner_z, y, zy, g, track_x, track_z, t, best_x,
                   best_z, step_size, lam, above, weight, track, rejected, idle};
    const Made out{best_x_new, best_z_new, track_x_new, track_z_new, y_new, zy_new, t_new, g_new, step_size_new,
                   above_new, weight_new, inner_z_new, track_new, rejected_new, idle_new};
    judge_instance(in, out, n, m);
}
