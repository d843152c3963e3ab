// The coordinate part of Sure's network, all coordinates of an instance by one block, everything in registers.
//
//     i, f, g, o = hint + W [features, h];  c+ = sigmoid(f) c + sigmoid(i) tanh(g);  h+ = sigmoid(o) tanh(c+)
//     out = base + heads( relu( inner( h+ ) ) )
//
// Compile-time: OUTPUTS, how many outputs a coordinate has.

#ifdef EMULATED  // tests run the rest of this file on a CPU
#define WEIGHTS_IN_SHARED_MEMORY static float weights[WEIGHTS];
#else
#define WEIGHTS_IN_SHARED_MEMORY __shared__ __align__(16) float weights[WEIGHTS];
#endif

constexpr int THREADS = 256, UNITS = 8, FEATURES = 8, WIDTH = FEATURES + UNITS, GATES = 4 * UNITS;
constexpr int INNER = GATES * WIDTH, HEADS = INNER + UNITS * UNITS + UNITS;
constexpr int WEIGHTS = HEADS + OUTPUTS * UNITS + OUTPUTS;

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float hyperbolic(float x) {
    const float small = __expf(-2.f * fabsf(x));
    return copysignf(__fdividef(1.f - small, 1.f + small), x);
}

// features, h, c (batch, 8, n), hint (batch, 32), base (batch, OUTPUTS), flat: W (32, 16), inner weight (8, 8) and bias,
// heads weight (OUTPUTS, 8) and bias -> out (batch, OUTPUTS, n), h_new and c_new (batch, 8, n). Block i: instance i.
extern "C" __global__ void __launch_bounds__(THREADS)
sure_coordinates(const float* features, const float* h, const float* c, const float* hint, const float* base,
                 const float* flat, float* out, float* h_new, float* c_new, int n) {
    WEIGHTS_IN_SHARED_MEMORY
    for (int k = threadIdx.x; k < WEIGHTS; k += THREADS) weights[k] = flat[k];
    const long long instance = blockIdx.x;
    features += instance * FEATURES * n, h += instance * UNITS * n, c += instance * UNITS * n;
    h_new += instance * UNITS * n, c_new += instance * UNITS * n;
    out += instance * OUTPUTS * n, hint += instance * GATES, base += instance * OUTPUTS;
    __syncthreads();

    for (int j = threadIdx.x; j < n; j += THREADS) {
        float seen[WIDTH], signal[UNITS];
#pragma unroll
        for (int k = 0; k < FEATURES; ++k) seen[k] = features[k * n + j];
#pragma unroll
        for (int k = 0; k < UNITS; ++k) seen[FEATURES + k] = h[k * n + j];
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            asm volatile("" ::: "memory");  // read the weights now, not all of them before the loops
            float gate[4];
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const float* row = weights + (part * UNITS + unit) * WIDTH;
                float sum = hint[part * UNITS + unit];
#pragma unroll
                for (int k = 0; k < WIDTH; ++k) sum += row[k] * seen[k];
                gate[part] = sum;
            }
            const float memory = sigmoid(gate[1]) * c[unit * n + j] + sigmoid(gate[0]) * hyperbolic(gate[2]);
            signal[unit] = sigmoid(gate[3]) * hyperbolic(memory);
            c_new[unit * n + j] = memory;
            h_new[unit * n + j] = signal[unit];
        }
        float inner[UNITS];
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            float sum = weights[INNER + UNITS * UNITS + unit];
#pragma unroll
            for (int k = 0; k < UNITS; ++k) sum += weights[INNER + unit * UNITS + k] * signal[k];
            inner[unit] = sum < 0.f ? 0.f : sum;  // a NaN stays one
        }
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) {
            float sum = base[k] + weights[HEADS + OUTPUTS * UNITS + k];
#pragma unroll
            for (int unit = 0; unit < UNITS; ++unit) sum += weights[HEADS + k * UNITS + unit] * inner[unit];
            out[k * n + j] = sum;
        }
    }
}
