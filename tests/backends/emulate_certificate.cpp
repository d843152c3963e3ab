// certificate.cu on a CPU.
#include "emulate.h"

using std::copysign;

#include "certificate/certificate.cu"

static struct {
    const void *A, *b, *lam;
    const double* x;
    double *out, *gradient;
    int m, n, matrices;
} arguments;

static void one_thread() {
    auto& a = arguments;
    certificate((const Entry*)a.A, (const Entry*)a.b, (const Entry*)a.lam, a.x, a.out, a.gradient, a.m, a.n, a.matrices);
}

extern "C" void run(const void* A, const void* b, const void* lam, const double* x, double* out,
                    double* gradient, int m, int n, int matrices, int batch) {
    arguments = {A, b, lam, x, out, gradient, m, n, matrices};
    kernel = one_thread;
    launch(batch);
}
