// orthonormal.cu on a CPU.
#include "emulate.h"

static float sqrtf(double x) { return std::sqrt((float)x); }

#include "lipschitz/orthonormal.cu"

static struct {
    const float *block, *scale, *earlier;
    float *out, *images, *scaled;
    int size, count, known, apart, room;
    double first_drop, second_drop;
} arguments;

static void one_thread() {
    auto& a = arguments;
    orthonormal(a.block, a.scale, a.earlier, a.out, a.images, a.scaled, a.size, a.count, a.known, a.apart, a.room,
                a.first_drop, a.second_drop);
}

extern "C" void run(const float* block, const float* scale, const float* earlier, float* out, float* images,
                    float* scaled, int size, int count, int known, int apart, int room, double first_drop,
                    double second_drop, int batch) {
    arguments = {block, scale, earlier, out, images, scaled, size, count, known, apart, room, first_drop, second_drop};
    kernel = one_thread;
    launch(batch);
}
