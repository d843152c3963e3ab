// The largest eigenvalue of the tridiagonal matrix of Lanczos' method; beside[k] is in its rows k and k + 1.
#pragma once
#include "formulas.h"

// Whether x is above all eigenvalues: whether all pivots of the matrix minus x are negative
template <class T> FORMULA bool above_all(const T* diagonal, const T* beside, int size, T x) {
    T pivot = diagonal[0] - x;
    for (int k = 1; k < size && pivot < 0; ++k) pivot = diagonal[k] - x - beside[k - 1] * beside[k - 1] / pivot;
    return pivot < 0;
}

// It lies between the largest entry of the diagonal and Gershgorin's bound.
template <class T> struct Bounds {
    T low, high;
};
template <class T> FORMULA Bounds<T> bounds_of(const T* diagonal, const T* beside, int size) {
    T low = diagonal[0], high = diagonal[0];
    for (int k = 0; k < size; ++k) {
        const T before = k > 0 ? beside[k - 1] : T(0), after = k + 1 < size ? beside[k] : T(0);
        low = larger(low, diagonal[k]), high = larger(high, diagonal[k] + before + after);
    }
    return {low, high};
}
