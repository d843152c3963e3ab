// The coordinate part of Sure's network, all coordinates of an instance by one block.
//
// Compile-time: OUTPUTS, how many outputs a coordinate has.

#include "coordinate.cu"

// features, h, c (batch, 8, n), hint (batch, 32), base (batch, OUTPUTS), flat: the weights
// -> out (batch, OUTPUTS, n), h_new and c_new (batch, 8, n). Block i: instance i.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
sure_coordinates(const float* features, const float* h, const float* c, const float* hint, const float* base,
                 const float* flat, float* out, float* h_new, float* c_new, int n) {
    __shared__ __align__(16) float weights[WEIGHTS];
    __shared__ float own[GATES + OUTPUTS];
    const long long instance = blockIdx.x;
    for (int k = threadIdx.x; k < WEIGHTS; k += THREADS) weights[k] = flat[k];
    if (threadIdx.x < GATES + OUTPUTS)
        own[threadIdx.x] = threadIdx.x < GATES ? hint[instance * GATES + threadIdx.x]
                                               : base[instance * OUTPUTS + threadIdx.x - GATES];
    features += instance * FEATURES * n, h += instance * UNITS * n, c += instance * UNITS * n;
    h_new += instance * UNITS * n, c_new += instance * UNITS * n, out += instance * OUTPUTS * n;
    __syncthreads();

    for (int first = threadIdx.x; first < n; first += PAIR * THREADS) {
        float part[PAIR][UNITS], cell[PAIR][UNITS], signal[PAIR][UNITS], seen[PAIR][WIDTH], result[PAIR][OUTPUTS];
        read_rows(features, n, first, part), read_rows(h, n, first, signal), read_rows(c, n, first, cell);
#pragma unroll
        for (int e = 0; e < PAIR; ++e)
#pragma unroll
            for (int k = 0; k < UNITS; ++k) seen[e][k] = part[e][k], seen[e][FEATURES + k] = signal[e][k];
        coordinate_network(weights, own, own + GATES, seen, cell, signal, result);
        write_rows(cell, n, first, c_new), write_rows(signal, n, first, h_new), write_rows(result, n, first, out);
    }
}
