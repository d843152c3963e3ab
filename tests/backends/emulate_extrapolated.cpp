// extrapolated.cu on a CPU.
#include "emulate.h"

#include <algorithm>
using std::min;

#include "products/extrapolated.cu"

static struct {
    const float *A, *x, *before, *momentum, *b;
    float *z, *w, *gradient;
    int batch, m, n, R;
} arguments;

static void one_thread() {
    auto& a = arguments;
    extrapolated(a.A, a.x, a.before, a.momentum, a.b, a.z, a.w, a.gradient, a.batch, a.m, a.n, a.R);
}

extern "C" void run(const float* A, const float* x, const float* before, const float* momentum, const float* b,
                    float* z, float* w, float* gradient, int batch, int m, int n, int R, int blocks) {
    arguments = {A, x, before, momentum, b, z, w, gradient, batch, m, n, R};
    kernel = one_thread;
    launch(batch, blocks);
}
