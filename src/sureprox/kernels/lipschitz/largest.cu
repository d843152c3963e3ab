// The largest eigenvalue of a symmetric G (size, size) for each instance, by Lanczos' method with one vector, one block
// of threads each.
//
// G is read once: every thread keeps the part of a row that it multiplies, HELD tiles of 32 columns in its registers and
// the others in shared memory. A row has SHARE threads, the first of which adds up what they find. The vectors are not
// orthogonalised again, which costs copies of eigenvalues that were found already and nothing else: the largest
// eigenvalue of the tridiagonal matrix is that of G as soon as it is there, and never above it but by rounding.

#include "runtime/device.cu"
#include "lipschitz/tridiagonal.h"

#ifndef EMULATED  // tests run the rest of this file on a CPU
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
#endif

// TILES, given: how many pieces of 32 columns make a row
constexpr int WARP = 32, MOST_WARPS = 16;
constexpr int SHARE = MOST_WARPS / TILES < TILES ? MOST_WARPS / TILES : TILES;
constexpr int TERMS = (TILES + SHARE - 1) / SHARE, HELD = TERMS < 2 ? TERMS : 2, LAID = TERMS - HELD;
constexpr int WARPS = TILES * SHARE, THREADS = WARP * WARPS, ROWS = WARP * TILES;
constexpr int MOST_STEPS = 64, ROUNDS = 3;
constexpr float SMALL = 1e-30f, LARGE = 1e30f;  // squares of A between these can be added up
constexpr float NOTHING = 1e-6f;                // what is shorter than this part of G's size is rounding

struct Small {
    float v[ROWS];             // the vector that is multiplied
    float parts[SHARE][ROWS];  // of its image
    float sums[2][TILES];
    float diagonal[MOST_STEPS], beside[MOST_STEPS];
    float low, high;
    unsigned char above[THREADS];
};

__device__ __forceinline__ float warp_sum(float value) {
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int apart = 16; apart > 0; apart /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

// The sum or the largest of the values of the threads that lead a row, for all threads. All have to call it, in turn with
// one slot and the other, so that none is used again before everybody has read it.
template <bool LARGEST> __device__ float over_rows(Small& s, int slot, float value) {
    float* sums = s.sums[slot];
    const int warp = threadIdx.x / WARP;
    if (warp < TILES) {
        value = LARGEST ? warp_max(value) : warp_sum(value);
        if (threadIdx.x % WARP == 0) sums[warp] = value;
    }
    __syncthreads();
    float all = sums[0];
    for (int tile = 1; tile < TILES; ++tile) all = LARGEST ? fmaxf(all, sums[tile]) : all + sums[tile];
    return all;
}

// The entries of G that are mine, those of row `row` and of TERMS tiles of columns from `first` on
struct Mine {
    float held[HELD][WARP];
    float* laid;  // (LAID, WARP), THREADS numbers apart

    template <class Entry> __device__ void fill(Entry entry) {
#pragma unroll
        for (int term = 0; term < HELD; ++term)
#pragma unroll
            for (int c = 0; c < WARP; ++c) held[term][c] = entry(term * WARP + c);
        for (int c = 0; c < LAID * WARP; ++c) laid[c * THREADS] = entry(HELD * WARP + c);
    }

    __device__ float times(const float* v, int tiles) const {
        float sums[4] = {};
#pragma unroll
        for (int term = 0; term < TERMS; ++term) {
            if (term >= tiles) break;
            const float4* of = reinterpret_cast<const float4*>(v + term * WARP);
#pragma unroll
            for (int c = 0; c < WARP; c += 4) {
                const float4 by = of[c / 4];
                float mine[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    if (term < HELD) mine[k] = held[term < HELD ? term : 0][c + k];
                    else mine[k] = laid[((term - HELD) * WARP + c + k) * THREADS];
                }
                sums[0] += mine[0] * by.x, sums[1] += mine[1] * by.y;
                sums[2] += mine[2] * by.z, sums[3] += mine[3] * by.w;
            }
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
};

// The largest eigenvalue of the tridiagonal matrix of `count` rows: all threads ask, each at another place.
__device__ float top(Small& s, int count) {
    if (threadIdx.x == 0) {
        const Bounds<float> found = bounds_of(s.diagonal, s.beside, count);
        s.low = found.low, s.high = found.high;
    }
    for (int round = 0; round < ROUNDS; ++round) {
        __syncthreads();
        const int t = threadIdx.x;
        const float low = s.low, width = s.high - low, x = low + width * ((t + 1) / (THREADS + 1.f));
        const bool above = above_all(s.diagonal, s.beside, count, x);
        s.above[t] = above;
        __syncthreads();
        if (above && (t == 0 || !s.above[t - 1])) s.low = low + width * (t / (THREADS + 1.f)), s.high = x;
        if (t == THREADS - 1 && !above) s.low = x;
    }
    __syncthreads();
    return s.low;
}

// A (batch, m, n), gram (batch, size, size) A A' or A'A, whichever is smaller, start (size), of length one -> out
// (batch): the largest eigenvalue of gram, found in `steps` <= MOST_STEPS steps. size <= 32 TILES. Where numbers are so
// large or small that their squares are not, the part of gram that was lost is made again from A / max |A|.
extern "C" __global__ void __launch_bounds__(THREADS)
largest(const float* A, const float* gram, const float* start, float* out, int m, int n, int steps) {
    SHARED_BYTES(raw)
    Small& s = *reinterpret_cast<Small*>(raw);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = warp % TILES * WARP + lane, part = warp / TILES, first = part * TERMS;
    const int size = m < n ? m : n, tiles = TILES - first < TERMS ? TILES - first : TERMS;
    const long long instance = blockIdx.x;
    const float* G = gram + instance * size * size;
    const bool leads = part == 0, there = row < size;

    Mine mine;
    mine.laid = reinterpret_cast<float*>(raw + sizeof(Small)) + threadIdx.x;
    mine.fill([&](int c) {
        const int column = first * WARP + c;  // G is symmetric, and so read along a row of it by the lanes of a warp
        return there && column < size ? G[(long long)column * size + row] : 0.f;
    });
    float scale = 1.f;
    const float peak = over_rows<true>(s, 0, leads && there ? G[(long long)row * size + row] : 0.f);
    if (!(peak > SMALL && peak < LARGE)) {  // the same for all
        const float* B = A + instance * m * n;
        float entry = 0.f;
        if (leads)
            for (int i = threadIdx.x; i < m * n; i += ROWS) entry = fmaxf(entry, fabsf(B[i]));
        scale = over_rows<true>(s, 1, entry);
        if (!(scale > 0.f)) {  // all zero
            if (threadIdx.x == 0) out[instance] = 0.f;
            return;
        }
        const int length = m < n ? n : m, along = m < n ? 1 : n, next = m < n ? n : 1;
        mine.fill([&](int c) {
            const int column = first * WARP + c;
            float sum = 0.f;
            if (there && column < size)
                for (int k = 0; k < length; ++k)
                    sum += B[row * next + k * along] / scale * (B[column * next + k * along] / scale);
            return sum;
        });
    }

    float v = leads && there ? start[row] : 0.f, before = 0.f, beta = 0.f, highest = 0.f;
    if (leads) s.v[row] = v;
    __syncthreads();
    int count = 0;
    while (count < steps) {
        s.parts[part][row] = mine.times(s.v + first * WARP, tiles);
        __syncthreads();
        float image = 0.f;
        if (leads)
            for (int k = 0; k < SHARE; ++k) image += s.parts[k][row];
        image -= beta * before;
        const float alpha = over_rows<false>(s, 0, image * v);
        image -= alpha * v;
        beta = sqrtf(over_rows<false>(s, 1, image * image));
        if (threadIdx.x == 0) s.diagonal[count] = alpha, s.beside[count] = beta;
        ++count;
        highest = fmaxf(highest, alpha);
        if (!(beta > NOTHING * highest)) break;  // the same for all: a space that G maps into itself
        before = v, v = image / beta;
        if (leads) s.v[row] = v;
        __syncthreads();
    }
    __syncthreads();
    const float found = top(s, count);
    if (threadIdx.x == 0) out[instance] = (found < 0.f ? 0.f : found) * scale * scale;
}
