// Runs CUDA code on a CPU: the threads of a block are fibers that take turns, exchanges between lanes go through
// memory. It checks who holds what, not speed and not races within a warp. The code that includes this file defines
// `kernel`, one thread of the kernel with its arguments, and calls `launch`.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
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
static float power_of_two(float x) { return std::exp2(x); }
static float reciprocal(float x) { return 1.f / x; }
static float quick_log2(float x) { return std::log2(x); }
static float quick_root(float x) { return std::sqrt(x); }
static void announce(const float*) {}
using std::copysignf, std::fabs, std::fmax;
#define fabsf std::fabs
#define fmaxf std::fmax

#ifndef BLOCK_THREADS
#define BLOCK_THREADS 256
#endif
constexpr int BLOCK = BLOCK_THREADS;
struct Index { int x, y; };
static Index threadIdx, blockIdx, gridDim, blockDim{BLOCK};

// Copies under way land as late as they may, so that whoever does not wait finds what was there before, or at once, so
// that they overwrite what somebody still needs.
static bool late = true;
struct Copy { void* to; const void* from; std::size_t size; };
static std::vector<std::vector<Copy>> groups[BLOCK];
template <class T> static void fetch(T* to, const T* from) {
    if (!late) *to = *from;
    else groups[threadIdx.x].back().push_back({to, from, sizeof(T)});
}
static void end_group() { groups[threadIdx.x].emplace_back(); }
template <int LATER> static void arrived() {
    auto& mine = groups[threadIdx.x];  // the last one is still open
    while (mine.size() > LATER + 1) {
        for (const Copy& copy : mine.front()) std::memcpy(copy.to, copy.from, copy.size);
        mine.erase(mine.begin());
    }
}
extern "C" void copies_land_late(int yes) { late = yes; }

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
static double __shfl_xor_sync(unsigned, double value, int mask) {
    float halves[2];
    std::memcpy(halves, &value, 8);
    auto all = meet(halves, 2);
    std::memcpy(&value, all[(threadIdx.x % 32) ^ mask], 8);
    return value;
}
static double __shfl_sync(unsigned, double value, int from) {
    float halves[2];
    std::memcpy(halves, &value, 8);
    auto all = meet(halves, 2);
    std::memcpy(&value, all[from], 8);
    return value;
}
static float __shfl_sync(unsigned, float value, int from) { return meet(&value, 1)[from][0]; }

alignas(16) static unsigned char raw[232448];
#define SHARED_BYTES(name)
static std::size_t asked_for = sizeof raw;  // bytes of shared memory
static bool overrun;
extern "C" void ask_for(int bytes) { asked_for = bytes, overrun = false; }
extern "C" int wrote_beyond() { return overrun; }

// Calls a kernel with `arrays`, the addresses in the order of its arguments, and then `sizes`.
template <class Argument> Argument argument(void* const* arrays, const int* sizes, int count, int k) {
    if constexpr (std::is_pointer_v<Argument>) return (Argument)arrays[k];
    else return sizes[k - count];
}
template <class... Arguments, std::size_t... K>
void call(void (*function)(Arguments...), void* const* arrays, const int* sizes, std::index_sequence<K...>) {
    constexpr int count = (int(std::is_pointer_v<Arguments>) + ...);
    function(argument<Arguments>(arrays, sizes, count, K)...);
}
template <class... Arguments> void call(void (*function)(Arguments...), void* const* arrays, const int* sizes) {
    call(function, arrays, sizes, std::index_sequence_for<Arguments...>{});
}

static void (*kernel)();
static void body() {
    kernel();
    finished[current] = true;
    for (int next = 0; next < BLOCK; ++next)
        if (!finished[next]) { resume(next); setcontext(&fibers[next]); }
    setcontext(&home);
}

static void launch(int blocks, int columns = 1) {
    static std::vector<std::vector<char>> stacks(BLOCK, std::vector<char>(1 << 16));
    gridDim = {blocks, columns};
    for (int block = 0; block < blocks * columns; ++block) {
        blockIdx = {block % blocks, block / blocks};
        std::memset(raw, 0xff, sizeof raw);  // not a number: whatever is used must have been written
        for (int t = 0; t < BLOCK; ++t) {
            groups[t].assign(1, {});
            finished[t] = false;
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = stacks[t].data();
            fibers[t].uc_stack.ss_size = stacks[t].size();
            makecontext(&fibers[t], body, 0);
        }
        resume(0);
        swapcontext(&home, &fibers[0]);
        for (std::size_t byte = asked_for; byte < sizeof raw; ++byte) overrun = overrun || raw[byte] != 0xff;
    }
}

