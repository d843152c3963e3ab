// orthonormal.cu on a CPU.
#include "emulate.h"

static float sqrtf(double x) { return std::sqrt((float)x); }

#include "orthonormal.cu"

static struct {
    const float *block, *earlier;
    float* out;
    int size, count, known, stride, apart;
    double first_drop, second_drop;
} arguments;

static void one_thread() {
    auto& a = arguments;
    orthonormal(a.block, a.earlier, a.out, a.size, a.count, a.known, a.stride, a.apart, a.first_drop, a.second_drop);
}

extern "C" void run(const float* block, const float* earlier, float* out, int size, int count, int known, int stride,
                    int apart, double first_drop, double second_drop, int batch) {
    arguments = {block, earlier, out, size, count, known, stride, apart, first_drop, second_drop};
    kernel = one_thread;
    launch(batch);
}
