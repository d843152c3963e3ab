// What is known about a point of a LASSO problem, with z = A x - b and the gradient g = A'z. With s the dual scale, that is
// the minimizer of |z|^2 s^2 / 2 + s z'b among |s| <= lam / max_j |g_j|, the duality gap is
//
//     (1 - s)^2 |z|^2 / 2 + sum_j (lam |x_j| + s g_j x_j).
#pragma once
#include "formulas.h"

template <class T> FORMULA T dual_scale(T square, T product, T lam, T largest) {
    const T scale = square > 0 ? -product / square : T(1), limit = lam / largest;
    return largest > 0 ? (scale > limit ? limit : scale < -limit ? -limit : scale) : scale;
}
template <class T> FORMULA T gap_of_residual(T scale, T square) { return T(0.5) * (1 - scale) * (1 - scale) * square; }
template <class T> FORMULA T gap_of_coordinate(T x, T g, T lam, T scale) {
    const T term = lam * magnitude(x) + scale * g * x;
    return term > 0 ? term : T(0);
}
// How far -g_j is from the subdifferential of lam |x_j|, where it is outside
template <class T> FORMULA T kkt_residual(T x, T g, T lam) {
    return x != 0 ? magnitude(g + with_sign(lam, x)) : magnitude(g) - lam;
}
