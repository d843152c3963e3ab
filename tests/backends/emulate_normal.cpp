// normal.cu on a CPU.
#include "emulate.h"

#include <algorithm>
using std::min;

#include "products/normal.cu"

static struct { const float *A, *x, *b; float *gradient, *value; int batch, m, n, R; } arguments;

static void one_thread() {
    auto& a = arguments;
    normal_map(a.A, a.x, a.b, a.gradient, a.value, a.batch, a.m, a.n, a.R);
}

extern "C" void run(const float* A, const float* x, const float* b, float* gradient, float* value, int batch, int m,
                    int n, int R, int blocks) {
    arguments = {A, x, b, gradient, value, batch, m, n, R};
    kernel = one_thread;
    launch(batch, blocks);
}
