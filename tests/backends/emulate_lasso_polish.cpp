// lasso_polish.cu on a CPU.
#include "emulate.h"

using std::copysign;

#include "lasso_polish.cu"

static struct {
    const float *A, *lam;
    const long long* rows;
    const double *x, *g;
    double* z;
    int m, n, rounds;
    double slack;
} arguments;

static void one_thread() {
    auto& a = arguments;
    polish(a.A, a.lam, a.rows, a.x, a.g, a.z, a.m, a.n, a.rounds, a.slack);
}

extern "C" int shared() { return sizeof(Shared); }

extern "C" void run(const float* A, const float* lam, const long long* rows, const double* x, const double* g, double* z,
                    int m, int n, int rounds, double slack, int batch) {
    arguments = {A, lam, rows, x, g, z, m, n, rounds, slack};
    kernel = one_thread;
    launch(batch);
}
