// For K points of every instance: z = A x - b, w = z + momentum (z - z_before) and A'w, each matrix read once from
// memory; see products.cu.
//
// Compile-time: POINTS = K, and what products.cu needs.

#include "products/products.cu"

struct Extrapolated {
    const float *b, *z_before;  // of this instance
    float *z, *w;
    float momentum;  // of this lane's point
    int m;
    static constexpr int KNOWN = 2;
    __device__ const float* before(int row, int p, int k) const {
        return k == 0 ? b + row : z_before + (long long)p * m + row;
    }
    __device__ float after(int row, int p, float product, const float* at) {
        const float here = product - at[0], there = here + momentum * (here - at[1]);
        z[(long long)p * m + row] = here;
        w[(long long)p * m + row] = there;
        return there;
    }
};

// A (batch, m, n), x (batch, K, n), before (batch, K, m), momentum (batch, K), b (batch, m)
// -> z and w (batch, K, m), gradient (blocks, batch, K, n)
extern "C" __global__ void __launch_bounds__(THREADS, 2)
extrapolated(const float* A, const float* x, const float* before, const float* momentum, const float* b, float* z,
             float* w, float* gradient, int batch, int m, int n, int R) {
    const long long instance = blockIdx.x, tall = instance * POINTS * m;
    const int lane = threadIdx.x % 32;
    Extrapolated images{b + instance * m, before + tall, z + tall, w + tall,
                        lane < POINTS ? momentum[instance * POINTS + lane] : 0.f, m};
    products(A, x, gradient + ((long long)blockIdx.y * batch + instance) * POINTS * n, m, n, R, images);
}
