// A step of Sure for r = lam |x|_1: what sure.py and sure_features.py compute and explain.
#pragma once
#include "formulas.h"

// Features of an instance and a coordinate, and the sums over the coordinates of an instance that they need
constexpr int SEEN_INSTANCE = 14, SEEN_COORDINATE = 8, SUMS = 15;
// As in sure.py: a test compares them
constexpr double LOG2_REACH = 3, LEAST_MOMENTUM = 0.02, LARGEST_MOMENTUM = 0.995, RELUCTANCE = 1, LARGEST_BETA = 5;
template <class T> constexpr T FLOOR = Limits<T>::TINY / Limits<T>::EPS;

template <class V> struct Point {  // what there is to know about a coordinate; y is x + shift
    V y, g, d, dg, G, G_before, side, side_before, slope, size;
    Mask<V> smooth, stable;
};

template <class T> struct Instance {
    T lam, inverse_L, L;
    bool fresh;
    T line, curvature, turned, logit, scale_G, scale_d, scale_q;
};

// Where -g lies with respect to the subdifferential
template <class V> FORMULA void place(Point<V>& p, Number<V> lam) {
    const Range<V> slopes = subdifferential(p.y, lam);
    p.size = larger(magnitude(slopes.low), magnitude(slopes.high));
    p.smooth = slopes.low == slopes.high, p.side = sign(slopes.low + slopes.high);
    p.slope = p.smooth ? p.g + slopes.low : constant<V>(0);
}

template <class V>
FORMULA Point<V> point(V y, V g, V d, V g_before, V G_before, V side_before, const Instance<Number<V>>& own) {
    Point<V> p;
    p.y = y, p.g = g, p.d = d, p.dg = own.fresh ? constant<V>(0) : g - g_before;
    place(p, own.lam);
    p.G = (y - soft_threshold(y - own.inverse_L * g, own.lam * own.inverse_L)) * own.L;
    p.G_before = own.fresh ? p.G : G_before, p.side_before = own.fresh ? p.side : side_before;
    p.stable = p.smooth && p.side == p.side_before;
    return p;
}

// What a coordinate adds to the sums: inner products of G, the one before, d and dg, those of slope, d and dg where the
// point is stable, how many are smooth and have changed sides, |size|^2
template <class V> FORMULA void add(const Point<V>& p, V* sums) {
    const V zero = constant<V>(0), one = constant<V>(1);
    const V d = p.stable ? p.d : zero, dg = p.stable ? p.dg : zero;
    sums[0] += p.G * p.G, sums[1] += p.G_before * p.G_before, sums[2] += p.G * p.G_before, sums[3] += p.G * p.d;
    sums[4] += p.d * p.d, sums[5] += p.d * p.dg, sums[6] += p.dg * p.dg;
    sums[7] += p.slope * d, sums[8] += p.slope * dg, sums[9] += p.d * d, sums[10] += p.d * dg, sums[11] += p.dg * dg;
    sums[12] += p.smooth ? one : zero, sums[13] += p.side != p.side_before ? one : zero;
    sums[14] += p.size * p.size;
}

template <class T> FORMULA T log_within(T v, T low, T high) { return decimal_logarithm(cut(v, low, high)); }

// From the sums: what all coordinates need, and the features. G_first: |G| at the start, which is now where it is fresh
template <class T>
FORMULA void instance_features(const T* s, T count, T momentum, T fresh, Instance<T>& own, T& G_first, T* seen) {
    constexpr T least_number = FLOOR<T>;
    const T GG = s[0], PP = s[1], GP = s[2], Gd = s[3], dd = s[4], dq = s[5], qq = s[6];
    const T sd = s[7], sq = s[8], dd_on = s[9], dq_on = s[10], qq_on = s[11], L = own.L;
    const T least = T(1e-5) * L * dd_on;
    own.curvature = (dq_on < least ? least : dq_on) + least_number;
    own.line = cut(-sd / own.curvature, T(-1), T(20));
    own.turned = sq + own.line * qq_on;
    const T beta = cut(own.turned / own.curvature / L, T(-LARGEST_BETA), T(LARGEST_BETA));
    const T G = root(GG + least_number), P = root(PP + least_number), d = root(dd + least_number), whole = root(count);
    own.scale_G = quotient(whole, G), own.scale_d = quotient(whole, d);
    own.scale_q = quotient(whole, root(qq + least_number));
    const T inside = cut(momentum, T(LEAST_MOMENTUM), T(LARGEST_MOMENTUM));
    own.logit = logarithm(quotient(inside, 1 - inside));

    const T first = own.fresh ? G : G_first, Ldq = L * dq, part = 1 / count;
    G_first = first;
    seen[0] = half_inverse_sinh(own.line);
    seen[1] = half_inverse_sinh(beta);
    seen[2] = T(0.3) * log_within(quotient(G, first), T(1e-9), T(1e3));
    seen[3] = 2 * log_within(quotient(G, P), T(0.1), T(10));
    seen[4] = quotient(Gd, d * G);
    seen[5] = quotient(GP, G * P);
    seen[6] = T(0.5) * log_within(quotient(dq, L * dd + least_number), T(1e-5), T(1)) + 1;
    seen[7] = T(0.5) * log_within(quotient(qq, Ldq < least_number ? least_number : Ldq), T(1e-4), T(1)) + T(0.5);
    seen[8] = T(0.5) * log_within(quotient(L * d, G), T(1e-3), T(1e4)) - T(0.3);
    seen[9] = 2 * (s[12] * part) - T(0.5);
    seen[10] = T(0.5) * log_within(s[13] * part + T(1e-3), T(0), T(2)) + 1;
    seen[11] = T(0.2) * log_within(quotient(G, root(s[14]) + least_number), T(1e-8), T(1e6)) + T(0.3);
    seen[12] = momentum;
    seen[13] = fresh;
}

template <class V> FORMULA void coordinate_features(const Point<V>& p, const Instance<Number<V>>& own, V* seen) {
    using T = Number<V>;
    const V least = constant<V>(FLOOR<T>), half = constant<V>(T(0.5));
    const V scaled_G = own.scale_G * p.G, scaled_d = own.scale_d * p.d, size = magnitude(p.g), span = p.size + size;
    seen[0] = quotient(p.g, span < least ? least : span);
    seen[1] = p.side;
    seen[2] = p.smooth ? half : -half;
    seen[3] = half_inverse_sinh(scaled_G);
    seen[4] = half_inverse_sinh(scaled_d);
    seen[5] = half_inverse_sinh(V(own.scale_q * p.dg));
    seen[6] = half_inverse_sinh(V(scaled_G * scaled_d));
    seen[7] = cut(quotient(size - p.size, larger(p.size, least)), T(-1), T(1));
}

// R, P, how far the gradient is extrapolated, and the conjugate share, from the outputs of a network
template <class V> struct Diagonals {
    V R, P, ahead, share;
};
template <class V> FORMULA Diagonals<V> diagonals(const V* o, bool conjugate, const Instance<Number<V>>& own) {
    using T = Number<V>;
    Diagonals<V> made;
    made.R = own.inverse_L * power_of_two(V(T(LOG2_REACH) * hyperbolic(o[0])));
    made.P = sigmoid(V(own.logit + o[1]));
    made.ahead = 2 * sigmoid(o[2]) * made.P;
    made.share = conjugate ? sigmoid(V(o[3] - T(RELUCTANCE))) : constant<V>(0);
    return made;
}

// The Hestenes-Stiefel beta, from the sum of R (slope + line dg) dg over the stable coordinates
template <class V> FORMULA V turning(const Point<V>& p, V R, Number<V> line) {
    return R * ((p.slope + line * p.dg) * p.dg);
}
template <class T> FORMULA T conjugate_beta(T turned, T curvature) {
    return cut(turned / curvature, T(-LARGEST_BETA), T(LARGEST_BETA));
}

// y+ = prox_{r,R}(base + P d - R (g + ahead dg)), where base and g are those after a line search for the conjugate share.
// `against`: part of <(base + P d - y+) / R, y+ - y>, which restarts the momentum where it is positive.
template <class V> struct Moved {
    V searched, g, P, next, against;  // searched: how far along d
};
template <class V>
FORMULA Moved<V> moved(const Point<V>& p, Diagonals<V> by, Number<V> beta, bool conjugate,
                       const Instance<Number<V>>& own) {
    Moved<V> made;
    V base = p.y, g = p.g;
    made.searched = constant<V>(0);
    if (conjugate) {
        const V share = p.stable ? by.share : constant<V>(0), searched = share * own.line;
        by.P += share * (beta - by.P), by.ahead *= 1 - share;
        base += searched * p.d, g += searched * p.dg;
        made.searched = searched;
    }
    const V from = base + by.P * p.d, next = soft_threshold(V(from - by.R * (g + by.ahead * p.dg)), V(own.lam * by.R));
    made.g = g, made.P = by.P, made.next = next;
    made.against = quotient(V(from - next), by.R) * (next - p.y);
    return made;
}
