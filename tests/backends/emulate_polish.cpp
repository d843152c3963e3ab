// polish.cu on a CPU.
#include "emulate.h"

using std::copysign, std::sqrt;

#include "polish.cu"

static struct {
    const double *gram, *x, *g, *lam, *pull, *limit;
    const unsigned char* on;
    double* z;
    int width, most, rounds;
} arguments;

static void one_thread() {
    auto& a = arguments;
    active_set(a.gram, a.x, a.g, a.lam, a.pull, a.limit, a.on, a.z, a.width, a.most, a.rounds);
}

extern "C" void run(const double* gram, const double* x, const double* g, const double* lam, const double* pull,
                    const double* limit, const unsigned char* on, double* z, int width, int most, int rounds,
                    int batch) {
    arguments = {gram, x, g, lam, pull, limit, on, z, width, most, rounds};
    kernel = one_thread;
    launch(batch);
}
