// polish.cu on a CPU.
#include "emulate.h"

using std::copysign, std::sqrt;

#include "support/polish.cu"

static struct {
    const double *gram, *x, *g, *lam, *pull, *limit;
    const unsigned char* on;
    double* z;
    int width, rounds;
} arguments;

static void one_thread() {
    auto& a = arguments;
    active_set(a.gram, a.x, a.g, a.lam, a.pull, a.limit, a.on, a.z, a.width, a.rounds);
}

extern "C" void run(const double* gram, const double* x, const double* g, const double* lam, const double* pull,
                    const double* limit, const unsigned char* on, double* z, int width, int rounds, int batch) {
    arguments = {gram, x, g, lam, pull, limit, on, z, width, rounds};
    kernel = one_thread;
    launch(batch);
}
