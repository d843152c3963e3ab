// network.cu on a CPU, with the instruction of the matrix units written out.
#include "emulate.h"

static float seen(unsigned u) { return __uint_as_float(u & 0xffffe000u); }  // the unit ignores the last 13 bits
static void mma(float& d0, float& d1, float& d2, float& d3, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    float mine[6] = {seen(a[0]), seen(a[1]), seen(a[2]), seen(a[3]), seen(b0), seen(b1)};
    auto all = meet(mine, 6);
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    float* d[4] = {&d0, &d1, &d2, &d3};
    for (int e = 0; e < 4; ++e) {
        int row = g + (e < 2 ? 0 : 8), column = 2 * q + e % 2;
        for (int k = 0; k < 8; ++k) {
            float left = all[4 * (row % 8) + k % 4][(row / 8) + 2 * (k / 4)];
            float right = all[4 * column + k % 4][4 + k / 4];
            *d[e] += left * right;
        }
    }
}

#include "network/network.cu"

struct Arguments {
    bool backward;
    const float *features, *h, *c, *weights, *d_out, *d_h_new, *d_c_new;
    float *a, *b, *e, *partial;
    int rows;
};
static Arguments arguments;

static void one_thread() {
    const Arguments& x = arguments;
    if (x.backward)
        network_backward(x.features, x.h, x.c, x.weights, x.d_out, x.d_h_new, x.d_c_new, x.a, x.b, x.e, x.partial,
                         x.rows);
    else
        network_forward(x.features, x.h, x.c, x.weights, x.a, x.b, x.e, x.rows);
}

extern "C" void forward(const float* features, const float* h, const float* c, const float* weights, float* out,
                        float* h_new, float* c_new, int rows, int blocks) {
    arguments = {false, features, h, c, weights, nullptr, nullptr, nullptr, out, h_new, c_new, nullptr, rows};
    kernel = one_thread;
    launch(blocks);
}
extern "C" void backward(const float* features, const float* h, const float* c, const float* weights,
                         const float* d_out, const float* d_h_new, const float* d_c_new, float* d_features, float* d_h,
                         float* d_c, float* partial, int rows, int blocks) {
    arguments = {true,       features, h,   c,   weights, d_out, d_h_new, d_c_new,
                 d_features, d_h,      d_c, partial, rows};
    kernel = one_thread;
    launch(blocks);
}
