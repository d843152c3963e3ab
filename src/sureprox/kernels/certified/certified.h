// Certified iterations on LASSO problems with one A per instance: what guarantee/certified.py, tracks.py, guaranteed.py
// and problems/stacked.py compute and explain, for K points of an instance in one go.
#pragma once
#include "runtime/numbers.h"
#include "certified/rules.h"
#include "runtime/parallel.h"

constexpr int POINTS = 3;  // at most: a wrapped optimizer and two FISTA tracks

// f(vector, vector, ...) over whole vectors, then the rest with zeros beyond the end
template <class T, class Body> INLINE void sweep(int64_t n, const Body& body) {
    int64_t j = 0;
    for (; j + LANES<T> <= n; j += LANES<T>) body(j, int64_t(LANES<T>));
    if (j < n) body(j, n - j);
}
template <class T> INLINE Vec<T> some(const T* p, int64_t count) {
    if (count == LANES<T>) return load(p);
    T part[LANES<T>] = {};
    std::memcpy(part, p, count * sizeof(T));
    return load(part);
}
template <class T> INLINE void put(T* p, Vec<T> v, int64_t count) {
    if (count == LANES<T>) return store(p, v);
    T part[LANES<T>];
    store(part, v);
    std::memcpy(p, part, count * sizeof(T));
}

// z_k = A x_k - b, w_k = z_k + momentum_k (z_k - before_k), g_k += A'w_k over R rows; x, g (K, padded), z, w, before (K, m)
template <class T, int K, int R>
void ahead_rows(const T* A, int64_t stride, const T* b, const T* x, const T* before, const T* momentum, T* z, T* w, T* g,
                int64_t padded, int64_t m, int64_t rows) {
    Vec<T> sum[K][R] = {};
    T slope[K][R] = {};
    for (int64_t j = 0; j < padded; j += LANES<T>)
        for (int r = 0; r < R; r++) {
            const Vec<T> a = load(A + r * stride + j);
            for (int k = 0; k < K; k++) sum[k][r] += a * load(x + k * padded + j);
        }
    for (int k = 0; k < K; k++)
        for (int r = 0; r < rows; r++) {
            const T here = total<T>(sum[k][r]) - b[r], there = here + momentum[k] * (here - before[k * m + r]);
            z[k * m + r] = here;
            w[k * m + r] = slope[k][r] = there;
        }
    for (int64_t j = 0; j < padded; j += LANES<T>) {
        Vec<T> v[K];
        for (int k = 0; k < K; k++) v[k] = load(g + k * padded + j);
        for (int r = 0; r < R; r++) {
            const Vec<T> a = load(A + r * stride + j);
            for (int k = 0; k < K; k++) v[k] += a * slope[k][r];
            __builtin_prefetch(A + (R + r) * stride + j);
        }
        for (int k = 0; k < K; k++) store(g + k * padded + j, v[k]);
    }
}

// All rows. x is zero beyond n >= LANES: rows may be read beyond their end, the last ones are copied first.
template <class T, int K>
void ahead_points(const T* A, const T* b, const T* x, const T* before, const T* momentum, T* z, T* w, T* g, int64_t m,
                  int64_t n) {
    constexpr int R = 4;
    const int64_t padded = rounded_up(n, LANES<T>), whole = (m - 1) / R * R;
    std::memset(g, 0, K * padded * sizeof(T));
    for (int64_t i = 0; i < whole; i += R)
        ahead_rows<T, K, R>(A + i * n, n, b + i, x, before + i, momentum, z + i, w + i, g, padded, m, R);
    T* last = scratch<T, 0>(R * padded);
    std::memset(last, 0, R * padded * sizeof(T));
    for (int64_t i = whole; i < m; i++) std::memcpy(last + (i - whole) * padded, A + i * n, n * sizeof(T));
    ahead_rows<T, K, R>(last, padded, b + whole, x, before + whole, momentum, z + whole, w + whole, g, padded, m, m - whole);
}

template <class T> void ahead_points(int points, const T* A, const T* b, const T* x, const T* before, const T* momentum,
                                     T* z, T* w, T* g, int64_t m, int64_t n) {
    if (points == 1) return ahead_points<T, 1>(A, b, x, before, momentum, z, w, g, m, n);
    if (points == 2) return ahead_points<T, 2>(A, b, x, before, momentum, z, w, g, m, n);
    ahead_points<T, 3>(A, b, x, before, momentum, z, w, g, m, n);
}

// What the step of one point from `from`, with gradient g there, has shown
template <class T>
Shown<T> shown(const T* x, const T* from, const T* g, const T* best_x, const T* z, const T* base, const T* best_z, T L,
               T lam, int64_t n, int64_t m) {
    Vec<T> xx{}, dd{}, ll{}, gl{}, change{}, bb{}, ee{}, ss{};
    sweep<T>(n, [&](int64_t j, int64_t count) IN_PLACE {
        const Vec<T> here = some(x + j, count), best = some(best_x + j, count);
        const Vec<T> lead = here - best, moved = here - some(from + j, count);
        xx += here * here, dd += moved * moved, ll += lead * lead, gl += some(g + j, count) * lead;
        change += absolute<T>(here) - absolute<T>(best);
    });
    sweep<T>(m, [&](int64_t j, int64_t count) IN_PLACE {
        const Vec<T> at = some(base + j, count), d = some(z + j, count) - at, e = some(best_z + j, count) - at;
        bb += d * d, ee += e * e, ss += at * at;
    });
    const T sums[POINT_SUMS] = {total<T>(xx),     total<T>(dd), total<T>(ll), total<T>(gl),
                                total<T>(change), total<T>(bb), total<T>(ee), total<T>(ss)};
    return shown(sums, L, lam);
}

template <class T> struct Compare {  // new, base and g (batch, K, n), images (batch, K, m), best (batch, n), (batch, m)
    const T *x, *z, *base_x, *base_z, *g, *best_x, *best_z, *L, *lam;
    T *above, *curvature, *move;  // (batch, K)
    int64_t batch, points, m, n, threads;
};

template <class T> void compare(const Compare<T>& in) {
    parallel(in.batch, 4 * in.points * (in.m + in.n), in.threads, [&](int64_t i) {
        for (int64_t k = i * in.points; k < (i + 1) * in.points; k++) {
            const Shown<T> seen =
                shown(in.x + k * in.n, in.base_x + k * in.n, in.g + k * in.n, in.best_x + i * in.n, in.z + k * in.m,
                      in.base_z + k * in.m, in.best_z + i * in.m, in.L[i], in.lam[i], in.n, in.m);
            in.above[k] = seen.above, in.curvature[k] = seen.curvature, in.move[k] = seen.move;
        }
    });
}

template <class T> struct Ahead {
    const T *A, *b, *x, *before, *momentum;
    T *z, *there, *g;
    int64_t batch, points, m, n, threads;
};

template <class T> void ahead(const Ahead<T>& in) {
    const int64_t padded = rounded_up(in.n, LANES<T>), K = in.points;
    parallel(in.batch, 2 * K * in.m * in.n, in.threads, [&](int64_t i) {
        T *x = scratch<T, 1>(2 * K * padded), *g = x + K * padded;
        std::memset(x, 0, K * padded * sizeof(T));
        for (int64_t k = 0; k < K; k++) std::memcpy(x + k * padded, in.x + (i * K + k) * in.n, in.n * sizeof(T));
        ahead_points<T>(int(K), in.A + i * in.m * in.n, in.b + i * in.m, x, in.before + i * K * in.m,
                        in.momentum + i * K, in.z + i * K * in.m, in.there + i * K * in.m, g, in.m, in.n);
        for (int64_t k = 0; k < K; k++) std::memcpy(in.g + (i * K + k) * in.n, g + k * padded, in.n * sizeof(T));
    });
}

// A FISTA track of one instance and what it becomes: to x and on to y where the step is taken, else it stays
template <class T> struct Moving {
    const T *x, *z, *y, *zy, *g;
    T *x_new, *z_new, *y_new, *zy_new, *g_new;

    void to(bool taken, const T* here, const T* image, const T* there, const T* slope, T momentum, int64_t n, int64_t m) {
        sweep<T>(n, [&](int64_t j, int64_t count) IN_PLACE {
            const Vec<T> point = some(here + j, count), gone = some(x + j, count);
            put(y_new + j, taken ? point + momentum * (point - gone) : some(y + j, count), count);
        });
        std::memcpy(x_new, taken ? here : x, n * sizeof(T)), std::memcpy(g_new, taken ? slope : g, n * sizeof(T));
        std::memcpy(z_new, taken ? image : z, m * sizeof(T)), std::memcpy(zy_new, taken ? there : zy, m * sizeof(T));
    }
};

template <class T> struct Follow {  // tracks (batch, T, .), g (batch, K, n), marks (batch, 5)
    const T *A, *b, *lam, *inner_x_new, *inner_x, *inner_z, *y, *zy, *g, *track_x, *track_z, *t;
    const T *best_x, *best_z, *step_size, *above, *weight;
    const int64_t *track, *rejected, *idle;
    T *best_x_new, *best_z_new, *inner_z_new, *track_x_new, *track_z_new, *y_new, *zy_new, *t_new, *g_new;
    T *step_size_new, *above_new, *weight_new;
    int64_t *track_new, *rejected_new, *idle_new;
    int64_t batch, tracks, first, m, n, threads;
};

// One iteration of all tracks of instance i, after the wrapped optimizer, if there is one (first = 1), has taken its step
template <class T> void follow(const Follow<T>& in, int64_t i) {
    const int64_t n = in.n, m = in.m, padded = rounded_up(n, LANES<T>), first = in.first, F = in.tracks, K = F + first;
    const T step_size = in.step_size[i], threshold = step_size * in.lam[i], L = 1 / step_size;
    T *x = scratch<T, 1>(2 * K * padded + 3 * K * m), *g = x + K * padded, *z = g + K * padded, *there = z + K * m;
    T *before = there + K * m, momentum[POINTS] = {}, pace[POINTS] = {};
    std::memset(x, 0, K * padded * sizeof(T));
    if (first) {
        std::memcpy(x, in.inner_x_new + i * n, n * sizeof(T));
        std::memcpy(before, in.inner_z + i * m, m * sizeof(T));
    }
    for (int64_t p = 0; p < F; p++) {
        const int64_t k = p + first, at = (i * F + p) * n;
        Vec<T> against{};
        sweep<T>(n, [&](int64_t j, int64_t count) IN_PLACE {
            const Vec<T> from = some(in.y + at + j, count), v = from - step_size * some(in.g + (i * K + k) * n + j, count);
            const Vec<T> moved = soft_threshold(v, threshold);
            put(x + k * padded + j, moved, count);
            against += (from - moved) * (moved - some(in.track_x + at + j, count));
        });
        T t = in.t[i * F + p];
        if (p >= 1 && total<T>(against) > 0) t = 1;
        pace[p] = next_pace(t), momentum[k] = momentum_of(t, pace[p]);
        std::memcpy(before + k * m, in.track_z + (i * F + p) * m, m * sizeof(T));
    }
    ahead_points<T>(int(K), in.A + i * m * n, in.b + i * m, x, before, momentum, z, there, g, m, n);

    Shown<T> seen[POINTS] = {};
    int64_t best = 0;
    for (int64_t k = 0; k < K; k++) {
        const T *from = k < first ? in.inner_x + i * n : in.y + (i * F + k - first) * n;
        const T *base = k < first ? in.inner_z + i * m : in.zy + (i * F + k - first) * m;
        seen[k] = shown(x + k * padded, from, in.g + (i * K + k) * n, in.best_x + i * n, z + k * m, base,
                        in.best_z + i * m, L, in.lam[i], n, m);
        if (seen[k].above < seen[best].above) best = k;
    }
    const bool better = seen[best].above < 0;
    const T drop = better ? -seen[best].above : 0;
    const int64_t track = better ? track_of(best, int(first)) : in.track[i];
    in.track_new[i] = track;
    bool calm = false;
    for (int64_t k = first; k < K; k++) calm = calm || is_still(seen[k].move);
    in.idle_new[i] = next_idle(in.idle[i], better, calm, is_still(seen[finder_of(track, int(K), int(first))].move));
    std::memcpy(in.best_x_new + i * n, better ? x + best * padded : in.best_x + i * n, n * sizeof(T));
    std::memcpy(in.best_z_new + i * m, better ? z + best * m : in.best_z + i * m, m * sizeof(T));
    std::memcpy(in.inner_z_new + i * m, z, m * sizeof(T));
    if (first) std::memcpy(in.g_new + i * K * n, g, n * sizeof(T));

    T nearest = seen[first].above;
    for (int64_t k = first + 1; k < K; k++) nearest = std::min(nearest, seen[k].above);
    next_marks(in.above + i * MARKS, drop, nearest, first == 1, seen[0].above, in.above_new + i * MARKS);

    bool every = true, initial = false;
    T highest = 0;
    for (int64_t p = 0; p < F; p++) {
        const int64_t k = p + first, at = (i * F + p) * n, row = (i * F + p) * m;
        const T curvature = seen[k].curvature;
        const bool taken = is_taken(curvature, L);
        every = every && taken;
        if (p == 0) initial = taken;
        if (finite(curvature)) highest = std::max(highest, curvature);
        Moving<T>{in.track_x + at, in.track_z + row, in.y + at, in.zy + row, in.g + (i * K + k) * n, in.track_x_new + at,
                  in.track_z_new + row, in.y_new + at, in.zy_new + row, in.g_new + (i * K + k) * n}
            .to(taken, x + k * padded, z + k * m, there + k * m, g + k * padded, momentum[k], n, m);
        in.t_new[i * F + p] = taken ? pace[p] : in.t[i * F + p];
    }
    const T start = in.t[i * F];
    in.step_size_new[i] = 1 / (every ? L : raised(L, highest));
    in.rejected_new[i] = in.rejected[i] + (every ? 0 : 1);
    in.weight_new[i] = initial ? start * start / L : in.weight[i];
}

template <class T> void follow(const Follow<T>& in) {
    parallel(in.batch, 2 * (in.tracks + in.first) * in.m * in.n, in.threads, [&](int64_t i) { follow(in, i); });
}
