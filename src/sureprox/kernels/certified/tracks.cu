// The steps of the FISTA tracks of a certified iteration on a LASSO problem, one block per instance, and what extrapolated.cu
// needs to go on from there: see Stacked.proximal_step, Tracks.pace and Certified._followed, which say why.
//
//     x+ = prox_{s r}(y - s g);  t = 1 for a restarting track if <y - x+, x+ - x> > 0;  t+ = (1 + sqrt(1 + 4 t^2)) / 2
//
// Compile-time: POINTS = K, FIRST = 1 if point 0 belongs to a wrapped optimizer and 0 if all are FISTA's.

#include "runtime/device.cu"
#include "formulas.h"

constexpr int THREADS = 256, WARPS = THREADS / 32, TRACKS = POINTS - FIRST;
constexpr int PLAIN = 1;  // tracks before this one do not restart

// own_x (batch, n) and own_z (batch, m) of the wrapped optimizer, y, x and z (batch, TRACKS, .) of the tracks,
// g (batch, K, n) -> new_x (batch, K, n), before (batch, K, m), momentum of all points (batch, K) and of the tracks, and their t
extern "C" __global__ void __launch_bounds__(THREADS)
tracks(const float* own_x, const float* own_z, const float* y, const float* g, const float* x, const float* z,
       const float* t, const float* step, const float* lam, float* new_x, float* before, float* momentum_all,
       float* momentum, float* t_new, int n, int m) {
    __shared__ float parts[WARPS][TRACKS];
    const long long i = blockIdx.x;
    const float s = step[i], by = lam[i] * s;
    y += i * TRACKS * n, x += i * TRACKS * n, z += i * TRACKS * m, g += i * POINTS * n;
    new_x += i * POINTS * n, before += i * POINTS * m;

    float against[TRACKS];
#pragma unroll
    for (int p = 0; p < TRACKS; ++p) against[p] = 0.f;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        float next[TRACKS];
        const float own = FIRST ? own_x[i * n + j] : 0.f;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) {
            const float at = y[p * n + j], v = at - s * g[(p + FIRST) * n + j];
            next[p] = soft_threshold(v, by);
            against[p] += (at - next[p]) * (next[p] - x[p * n + j]);
        }
        if (FIRST) new_x[j] = own;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) new_x[(p + FIRST) * n + j] = next[p];
    }
    for (int j = threadIdx.x; j < m; j += THREADS) {
        float image[TRACKS];
        const float own = FIRST ? own_z[i * m + j] : 0.f;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) image[p] = z[p * m + j];
        if (FIRST) before[j] = own;
#pragma unroll
        for (int p = 0; p < TRACKS; ++p) before[(p + FIRST) * m + j] = image[p];
    }
#pragma unroll
    for (int p = 0; p < TRACKS; ++p) {
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) against[p] += __shfl_xor_sync(0xffffffffu, against[p], apart);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][p] = against[p];
    }
    __syncthreads();
    if (threadIdx.x < TRACKS) {
        const int p = threadIdx.x;
        float sum = 0.f;
        for (int w = 0; w < WARPS; ++w) sum += parts[w][p];
        const float now = p >= PLAIN && sum > 0.f ? 1.f : t[i * TRACKS + p];
        const float next = next_pace(now), pace = momentum_of(now, next);
        t_new[i * TRACKS + p] = next, momentum[i * TRACKS + p] = pace;
        momentum_all[i * POINTS + p + FIRST] = pace;
        if (FIRST && p == 0) momentum_all[i * POINTS] = 0.f;  // it goes on from where it is
    }
}
