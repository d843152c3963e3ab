// The entry points: one for each step and precision.
#include "certificate/certificate.h"
#include "network/go_math.h"
#include "support/polish.h"
#include "lipschitz/spectrum.h"
#include "sure/sure.h"

template <class T> struct Gradient {
    const T *A, *b, *x;
    T* g;
    const T* const* weights;  // none
    int64_t batch, m, n, threads;
};

template <class T> void gradients(const Gradient<T>& in) {
    const int64_t padded = rounded_up(in.n, LANES<T>);
    parallel(in.batch, 2 * in.m * in.n, in.threads, [&](int64_t i) {
        T *x = scratch<T, 1>(2 * padded), *g = x + padded;
        std::memset(x, 0, padded * sizeof(T));
        std::memcpy(x, in.x + i * in.n, in.n * sizeof(T));
        gradient(in.A + i * in.m * in.n, in.b + i * in.m, x, g, in.m, in.n);
        std::memcpy(in.g + i * in.n, g, in.n * sizeof(T));
    });
}

extern "C" {
void go_math_float(const GoMath<float>* in) { go_math(*in); }
void go_math_double(const GoMath<double>* in) { go_math(*in); }
void sure_float(const Sure<float>* in) { sure(*in); }
void sure_double(const Sure<double>* in) { sure(*in); }
void forward_float(const Forward<float>* in) { forward(*in); }
void forward_double(const Forward<double>* in) { forward(*in); }
void ahead_float(const Ahead<float>* in) { ahead(*in); }
void ahead_double(const Ahead<double>* in) { ahead(*in); }
void compare_float(const Compare<float>* in) { compare(*in); }
void compare_double(const Compare<double>* in) { compare(*in); }
void follow_float(const Follow<float>* in) { follow(*in); }
void follow_double(const Follow<double>* in) { follow(*in); }
void turn_float(const Turn<float>* in) { turn(*in); }
void turn_double(const Turn<double>* in) { turn(*in); }
void certificate_float(const Certificate<float>* in) { certificates(*in); }
void certificate_double(const Certificate<double>* in) { certificates(*in); }
void polish_float(const Polish<float>* in) { polish(*in); }
void polish_double(const Polish<double>* in) { polish(*in); }
void largest_float(const Largest<float>* in) { largest(*in); }
void largest_double(const Largest<double>* in) { largest(*in); }
void gradient_float(const Gradient<float>* in) { gradients(*in); }
void gradient_double(const Gradient<double>* in) { gradients(*in); }
}
