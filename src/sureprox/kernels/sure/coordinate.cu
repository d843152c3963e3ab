// The network of Sure for a pair of coordinates, everything in registers but the weights, which the pair shares.
//
//     i, f, g, o = hint + W [features, h];  c+ = sigmoid(f) c + sigmoid(i) tanh(g);  h+ = sigmoid(o) tanh(c+)
//     out = base + heads( relu( inner( h+ ) ) )
//
// Compile-time: OUTPUTS, how many outputs a coordinate has; BLOCK_THREADS, threads of a block.

constexpr int THREADS = BLOCK_THREADS, UNITS = 8, FEATURES = 8, WIDTH = FEATURES + UNITS, GATES = 4 * UNITS, PAIR = 2;
// weights: W (32, 16), inner weight (8, 8) and bias, heads weight (OUTPUTS, 8) and bias
constexpr int INNER = GATES * WIDTH, HEADS = INNER + UNITS * UNITS + UNITS;
constexpr int WEIGHTS = HEADS + OUTPUTS * UNITS + OUTPUTS;

#include "runtime/cells.cu"
#include "sure/sure_step.h"

// seen: features, then h; c becomes the new one, h is the new one. weights, hint (32), base (OUTPUTS): shared memory.
__device__ __forceinline__ void coordinate_network(const float* weights, const float* hint, const float* base,
                                                   const float (&seen)[PAIR][WIDTH], float (&c)[PAIR][UNITS],
                                                   float (&h)[PAIR][UNITS], float (&out)[PAIR][OUTPUTS]) {
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        asm volatile("" ::: "memory");  // read the weights now, not all of them before the loops
        float gate[PAIR][4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            const float* row = weights + (part * UNITS + unit) * WIDTH;
#pragma unroll
            for (int e = 0; e < PAIR; ++e) gate[e][part] = hint[part * UNITS + unit];
#pragma unroll
            for (int k = 0; k < WIDTH; ++k)
#pragma unroll
                for (int e = 0; e < PAIR; ++e) gate[e][part] += row[k] * seen[e][k];
        }
#pragma unroll
        for (int e = 0; e < PAIR; ++e)
            lstm_cell(gate[e][0], gate[e][1], gate[e][2], gate[e][3], c[e][unit], h[e][unit]);
    }
    asm volatile("" ::: "memory");
    float inner[PAIR][UNITS];
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit)
#pragma unroll
        for (int e = 0; e < PAIR; ++e) {
            float sum = weights[INNER + UNITS * UNITS + unit];
#pragma unroll
            for (int k = 0; k < UNITS; ++k) sum += weights[INNER + unit * UNITS + k] * h[e][k];
            inner[e][unit] = sum < 0.f ? 0.f : sum;  // a NaN stays one
        }
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k)
#pragma unroll
        for (int e = 0; e < PAIR; ++e) {
            float sum = base[k] + weights[HEADS + OUTPUTS * UNITS + k];
#pragma unroll
            for (int unit = 0; unit < UNITS; ++unit) sum += weights[HEADS + k * UNITS + unit] * inner[e][unit];
            out[e][k] = sum;
        }
}

// Coordinates first + e THREADS, e = 0, ..., PAIR - 1, of (8, n); what lies beyond n is read as zero and not written.
__device__ __forceinline__ void read_rows(const float* from, int n, int first, float (&to)[PAIR][UNITS]) {
#pragma unroll
    for (int k = 0; k < UNITS; ++k)
#pragma unroll
        for (int e = 0; e < PAIR; ++e) to[e][k] = first + e * THREADS < n ? from[k * n + first + e * THREADS] : 0.f;
}
template <int ROWS>
__device__ __forceinline__ void write_rows(const float (&from)[PAIR][ROWS], int n, int first, float* to) {
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
#pragma unroll
        for (int e = 0; e < PAIR; ++e)
            if (first + e * THREADS < n) to[k * n + first + e * THREADS] = from[e][k];
}
