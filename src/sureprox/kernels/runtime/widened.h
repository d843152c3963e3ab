// Numbers of any precision read as doubles.
#pragma once
#include "runtime/numbers.h"
#include "runtime/parallel.h"

INLINE Vec<double> widened(const double* p) { return load(p); }
INLINE Vec<double> widened(const float* p) {
    typedef float Half __attribute__((vector_size(BYTES / 2)));
    Half v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vec<double>);
}
