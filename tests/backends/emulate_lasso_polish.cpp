// lasso_polish.cu on a CPU.
#include "emulate.h"

using std::copysign;

static void multiply_add(double (&c)[2], double a, double b) {
    double given[2] = {a, b};
    auto all = meet(reinterpret_cast<float*>(given), 4);
    double of[32][2];
    for (int lane = 0; lane < 32; ++lane) std::memcpy(of[lane], all[lane], sizeof of[lane]);
    const int lane = threadIdx.x % 32;
    for (int e = 0; e < 2; ++e)
        for (int k = 0; k < 4; ++k) c[e] += of[lane / 4 * 4 + k][0] * of[(2 * (lane % 4) + e) * 4 + k][1];
}

#include "support/lasso_polish.cu"

static struct {
    const float *A, *lam;
    const long long* rows;
    const double *x, *g;
    double *z, *h;
    int m, n, rounds;
} arguments;

static void one_thread() {
    auto& a = arguments;
    polish(a.A, a.lam, a.rows, a.x, a.g, a.z, a.h, a.m, a.n, a.rounds);
}

extern "C" int shared() { return sizeof(Shared); }

extern "C" void run(const float* A, const float* lam, const long long* rows, const double* x, const double* g, double* z,
                    double* h, int m, int n, int rounds, int batch) {
    arguments = {A, lam, rows, x, g, z, h, m, n, rounds};
    kernel = one_thread;
    launch(batch);
}
