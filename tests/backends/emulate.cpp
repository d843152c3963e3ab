// Runs network.cu on a CPU: the threads of a block are fibers that take turns, the two matrix instructions and the
// exchanges between lanes go through memory. It checks who holds what, not speed and not races within a warp.
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <vector>

#define EMULATED
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n)

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
static float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }
#define __expf std::exp
static float __fdividef(float x, float y) { return x / y; }
using std::copysignf, std::fabs, std::fmax;
#define fabsf std::fabs
#define fmaxf std::fmax

constexpr int BLOCK = 256;
struct Index { int x; };
static Index threadIdx, blockIdx, gridDim, blockDim{BLOCK};

static ucontext_t fibers[BLOCK], home;
static bool finished[BLOCK];
static int current;

static void resume(int thread) { current = thread; threadIdx.x = thread; }
static void yield() {
    int from = current, next = (current + 1) % BLOCK;
    while (finished[next] && next != from) next = (next + 1) % BLOCK;
    if (next == from) return;
    resume(next);
    swapcontext(&fibers[from], &fibers[next]);
    resume(from);
}

struct Barrier {
    int arrived = 0, generation = 0;
    void wait(int members) {
        int mine = generation;
        if (++arrived == members) { arrived = 0; ++generation; return; }
        while (generation == mine) yield();
    }
};
static Barrier block_barrier, warp_barrier[BLOCK / 32];
static void __syncthreads() { block_barrier.wait(BLOCK); }

static float exchange[BLOCK / 32][2][32][6];
static int turn[BLOCK];
static float (*meet(const float* mine, int count))[6] {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, side = turn[threadIdx.x]++ % 2;
    std::memcpy(exchange[warp][side][lane], mine, count * sizeof(float));
    warp_barrier[warp].wait(32);
    return exchange[warp][side];
}
static float __shfl_xor_sync(unsigned, float value, int mask) {
    auto all = meet(&value, 1);
    return all[(threadIdx.x % 32) ^ mask][0];
}

static unsigned to_tf32(float value) { return (__float_as_uint(value) + 0x1000u) & 0xffffe000u; }
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

alignas(16) static unsigned char raw[232448];
#define SHARED_BYTES(name)
#include "network.cu"

struct Arguments {
    bool backward;
    const float *features, *h, *c, *weights, *d_out, *d_h_new, *d_c_new;
    float *a, *b, *e, *partial;
    int rows;
};
static Arguments arguments;

static void body() {
    const Arguments& x = arguments;
    if (x.backward)
        network_backward(x.features, x.h, x.c, x.weights, x.d_out, x.d_h_new, x.d_c_new, x.a, x.b, x.e, x.partial,
                         x.rows);
    else
        network_forward(x.features, x.h, x.c, x.weights, x.a, x.b, x.e, x.rows);
    finished[current] = true;
    for (int next = 0; next < BLOCK; ++next)
        if (!finished[next]) { resume(next); setcontext(&fibers[next]); }
    setcontext(&home);
}

static void launch(int blocks) {
    static std::vector<std::vector<char>> stacks(BLOCK, std::vector<char>(1 << 16));
    gridDim.x = blocks;
    for (int block = 0; block < blocks; ++block) {
        blockIdx.x = block;
        std::memset(raw, 0xff, sizeof raw);  // not a number: whatever is used must have been written
        for (int t = 0; t < BLOCK; ++t) {
            finished[t] = false;
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = stacks[t].data();
            fibers[t].uc_stack.ss_size = stacks[t].size();
            makecontext(&fibers[t], body, 0);
        }
        resume(0);
        swapcontext(&home, &fibers[0]);
    }
}

extern "C" void forward(const float* features, const float* h, const float* c, const float* weights, float* out,
                        float* h_new, float* c_new, int rows, int blocks) {
    arguments = {false, features, h, c, weights, nullptr, nullptr, nullptr, out, h_new, c_new, nullptr, rows};
    launch(blocks);
}
extern "C" void backward(const float* features, const float* h, const float* c, const float* weights,
                         const float* d_out, const float* d_h_new, const float* d_c_new, float* d_features, float* d_h,
                         float* d_c, float* partial, int rows, int blocks) {
    arguments = {true,       features, h,   c,   weights, d_out, d_h_new, d_c_new,
                 d_features, d_h,      d_c, partial, rows};
    launch(blocks);
}
