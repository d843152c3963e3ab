// The rules of the active set method: what support/newton.py computes and explains.
#pragma once
#include "formulas.h"

constexpr double SLACK = 1e-9;  // as in support/newton.py: a test compares them
constexpr int ATTEMPTS = 2;

// Candidates for a support of `size` coordinates, if there are so many
template <class I> FORMULA I candidates_for(I size) { return size + size / 8 + 8; }

// Minus the slope of lam |x|
template <class T> FORMULA T pull_of(T x, T lam) { return x == 0 ? T(0) : x > 0 ? -lam : lam; }

// Whether a coordinate that comes out at `there` leaves the support, whether one outside joins it, and its pull then
template <class T> FORMULA bool leaves_at(T pull, T there) { return pull * there > 0; }
template <class T> FORMULA bool joins_at(bool inside, T slope, T limit) { return !inside && magnitude(slope) > limit; }
template <class T> FORMULA T next_pull(bool joins, T slope, T lam) { return joins ? with_sign(lam, slope) : T(0); }
