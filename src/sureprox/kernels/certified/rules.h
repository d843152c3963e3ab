// The rules of certified iterations: what stacked.py, tracks.py and certified.py compute and explain.
#pragma once
#include "formulas.h"

constexpr int POINT_SUMS = 8, MARKS = 5;
// As in stacked.py and tracks.py: a test compares them
constexpr double VALUE_ERROR = 8, TRIVIAL = 16, STILL = 8, TAKEN = 8, GROWTH = 1.02, JUMP = 10;

template <class T> struct Shown {
    T above, curvature, move;
};

// What a step of one point has shown, from |x|^2, |x - from|^2, |x - best|^2, <g, x - best>, |x|_1 - |best|_1 and of images
// |z - from|^2, |best - from|^2, |from|^2
template <class T> FORMULA Shown<T> shown(const T* s, T L, T lam) {
    constexpr T eps = Limits<T>::EPS, tiny = Limits<T>::TINY;
    const T spread = exact_root(L);
    const T length = exact_root(s[0]), step = exact_root(s[1]), reach = spread * exact_root(s[2]);
    const T size = exact_root(s[7]), turn = exact_root(s[5]), turn_best = exact_root(s[6]), penalty = lam * s[4];
    const T scale = 2 * size + 2 * spread * length + reach;
    const T error = eps * (size * reach + (turn + turn_best) * scale);
    const T value = s[3] + T(0.5) * (s[5] - s[6]) + error + penalty + T(VALUE_ERROR) * eps * magnitude(penalty);
    const T bend = turn - T(TRIVIAL) * eps * scale, move = step / (length < tiny ? tiny : length);
    Shown<T> out;
    out.above = finite(value + length) ? value : infinite<T>();
    out.curvature = move <= T(TRIVIAL) * eps ? T(0) : (bend < 0 ? T(0) : bend * bend) / (step * step);
    out.move = move;
    return out;
}

template <class T> FORMULA bool is_still(T move) { return move <= T(STILL) * Limits<T>::EPS; }

// Whether L is large enough for the step; a NaN is not taken
template <class T> FORMULA bool is_taken(T curvature, T L) { return curvature <= L * (1 + T(TAKEN) * Limits<T>::EPS); }

// What L becomes after a step that has seen `curvature` > L
template <class T> FORMULA T raised(T L, T curvature) {
    const T wanted = 2 * L > T(GROWTH) * curvature ? 2 * L : T(GROWTH) * curvature;
    return wanted < T(JUMP) * L ? wanted : T(JUMP) * L;
}

// The name of the track that point `best` belongs to, and the point of a track; `first` is 1 if point 0 is that of a wrapped
// optimizer. Track 0 is the last one.
template <class I> FORMULA I track_of(I best, int first) { return best + 2 - first; }
template <class I> FORMULA int finder_of(I track, int points, int first) {
    return track == 0 ? points - 1 : int(track) - 2 + first;
}

// How often nothing has changed. `calm`: a FISTA track does not move
template <class I> FORMULA I next_idle(I idle, bool better, bool calm, bool finder_still) {
    const bool still = !better && (calm || finder_still);
    return still ? idle + 1 : (calm ? idle : 0);
}

// known, marks: learned, classical, mark, origin, now. `nearest`: the smallest of `above` among FISTA's tracks; own_above:
// that of the wrapped optimizer, if there is one
template <class T>
FORMULA void next_marks(const T* known, T drop, T nearest, bool has_own, T own_above, T* marks) {
    const T learned = known[0] + drop, classical = known[1] + drop, nearest_now = nearest + drop;
    const T now = has_own ? own_above + drop : learned;
    marks[0] = now < learned ? now : learned;
    marks[1] = nearest_now < classical ? nearest_now : classical;
    marks[2] = known[2] + drop, marks[3] = known[3] + drop, marks[4] = now;
}
