// An iteration of the cheap guarantee (guarantee/cheap.py) while no optimizer has been given up.
#pragma once
#include "certified/certified.h"

// The optimizer has stepped from `from_x`, with image from_z and gradient g, to x. Vectors (batch, n), images (batch, m),
// the rest (batch). `fista` is 1 where FISTA steps too, of which y and zy are where it steps from; both share a read of A.
template <class T> struct Turn {
    const T *A, *b, *lam, *x, *from_x, *from_z, *g, *best_x, *best_z, *step_size, *gained, *origin;
    const T *track_x, *track_z, *y, *zy, *t, *track_g, *weight;
    const int64_t *track, *idle, *rejected;
    T *z, *g_new, *best_x_new, *best_z_new, *gained_new, *origin_new, *now;
    T *track_x_new, *track_z_new, *y_new, *zy_new, *t_new, *track_g_new, *weight_new, *step_size_new;
    int64_t *track_new, *idle_new, *rejected_new;
    int64_t batch, m, n, fista, threads;
};

template <class T> void turn(const Turn<T>& in, int64_t i) {
    enum { OPTIMIZER = 1, FISTA = 2 };  // as in guaranteed.py
    const int64_t n = in.n, m = in.m, padded = rounded_up(n, LANES<T>), K = 1 + in.fista, vector = i * n, image = i * m;
    const T step_size = in.step_size[i], lam = in.lam[i], L = 1 / step_size;
    T *x = scratch<T, 1>(2 * K * padded + 3 * K * m), *g = x + K * padded, *z = g + K * padded, *there = z + K * m;
    T *before = there + K * m, momentum[2] = {}, pace = 1;
    std::memset(x, 0, K * padded * sizeof(T));
    std::memcpy(x, in.x + vector, n * sizeof(T));
    std::memcpy(before, in.from_z + image, m * sizeof(T));
    if (in.fista) {
        sweep<T>(n, [&](int64_t j, int64_t count) IN_PLACE {
            const Vec<T> v = some(in.y + vector + j, count) - step_size * some(in.track_g + vector + j, count);
            put(x + padded + j, soft_threshold(v, step_size * lam), count);
        });
        pace = next_pace(in.t[i]), momentum[1] = momentum_of(in.t[i], pace);
        std::memcpy(before + m, in.track_z + image, m * sizeof(T));
    }
    ahead_points<T>(int(K), in.A + i * m * n, in.b + image, x, before, momentum, z, there, g, m, n);

    const T *best_x = in.best_x + vector, *best_z = in.best_z + image;
    const Shown<T> seen = shown(x, in.from_x + vector, in.g + vector, best_x, z, in.from_z + image, best_z, L, lam, n, m);
    const bool better = seen.above < 0;
    T fallen = better ? -seen.above : 0, now = seen.above + fallen;
    int64_t track = better ? int64_t(OPTIMIZER) : in.track[i];
    int64_t idle = !better && is_still(seen.move) ? in.idle[i] + 1 : 0;
    if (better) best_x = x, best_z = z;
    if (in.fista) {
        const Shown<T> other = shown(x + padded, in.y + vector, in.track_g + vector, best_x, z + m, in.zy + image, best_z,
                                     L, lam, n, m);
        const bool taken = is_taken(other.curvature, L);
        if (other.above < 0) {
            best_x = x + padded, best_z = z + m, track = FISTA, idle = 0;
            fallen -= other.above, now -= other.above;
        }
        Moving<T>{in.track_x + vector, in.track_z + image, in.y + vector, in.zy + image, in.track_g + vector,
                  in.track_x_new + vector, in.track_z_new + image, in.y_new + vector, in.zy_new + image,
                  in.track_g_new + vector}
            .to(taken, x + padded, z + m, there + m, g + padded, momentum[1], n, m);
        const T highest = finite(other.curvature) ? other.curvature : T(0);
        in.t_new[i] = taken ? pace : in.t[i];
        in.step_size_new[i] = 1 / (taken ? L : raised(L, highest));
        in.rejected_new[i] = in.rejected[i] + !taken;
        in.weight_new[i] = taken ? in.t[i] * in.t[i] / L : in.weight[i];
    }
    std::memcpy(in.z + image, z, m * sizeof(T)), std::memcpy(in.g_new + vector, g, n * sizeof(T));
    std::memcpy(in.best_x_new + vector, best_x, n * sizeof(T)), std::memcpy(in.best_z_new + image, best_z, m * sizeof(T));
    in.gained_new[i] = in.gained[i] + fallen, in.origin_new[i] = in.origin[i] + fallen, in.now[i] = now;
    in.track_new[i] = track, in.idle_new[i] = idle;
}

template <class T> void turn(const Turn<T>& in) {
    parallel(in.batch, 3 * in.m * in.n, in.threads, [&](int64_t i) { turn(in, i); });
}
