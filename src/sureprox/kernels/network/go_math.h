// A step of GO-Math-L2O, and the coordinate network alone for the other learned optimizers.
#pragma once
#include "network/network.h"
#include "certified/turn.h"

enum GradientMap { LHNOR, LH, STD };

// Every tensor is contiguous: vectors (B, n), scalars (B), features (B, 3, n), memory (layers, hidden, stride).
// A (B, m, n) and b (B, m), or A null and `g` the gradient; `shift` may be null. `turn`, if not null, is what follows for
// each instance, of which x is x_new.
template <class T> struct GoMath {
    const T *A, *b, *g, *shift, *lam, *step, *q_scale, *norms, *x, *v, *h, *c;
    T *x_new, *v_new, *h_new, *c_new, *R, *Q, *B, *features;
    const T* const* weights;
    const Turn<T>* turn;
    int64_t batch, m, n, hidden, layers, stride, gradient_map, softplus, biases, threads;
};

template <class T> Vec<T> activated(Vec<T> v, bool soft) { return soft ? softplus<T>(v) : sigmoid(v); }

// x+ = prox_{r,R}(x - R g - Q v - b1), v+ = (1 - B) G + B v - b2 for one block from coordinate `at` on
template <class T>
void go_math_block(const GoMath<T>& in, const Network<T>& network, int64_t i, const T* g, int64_t at, T* work,
                   Upcoming& upcoming) {
    const int64_t n = in.n, from = i * n + at, count = std::min<int64_t>(n - at, BLOCK<T>);
    const T lam = in.lam[i], floor = T(1e-20);
    T* network_work = work;
    T* rows = work + network.room();
    auto row = [&](int k) { return rows + k * BLOCK<T>; };
    T *gs = row(0), *xs = row(1), *vs = row(2), *ts = row(3), *Rs = row(4), *Qs = row(5), *Bs = row(6);
    take(gs, g + at, count);
    take(xs, in.x + from, count);
    take(vs, in.v + from, count);
    if (in.shift) take(ts, in.shift + from, count);
    else std::memset(ts, 0, BLOCK<T> * sizeof(T));
    for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
        const auto slopes = subdifferential<Vec<T>>(load(xs + k) + load(ts + k), lam);
        store(network_work + k, load(gs + k) / in.norms[3 * i]);
        store(network_work + BLOCK<T> + k, slopes.low / in.norms[3 * i + 1]);
        store(network_work + 2 * BLOCK<T> + k, slopes.high / in.norms[3 * i + 2]);
    }
    for (int k = 0; k < 3; k++) give(in.features + (3 * i + k) * n + at, network_work + k * BLOCK<T>, count);
    const T* out = network.block(network_work, {in.h, in.c, in.h_new, in.c_new, in.stride}, from, count, upcoming);
    const bool soft = in.softplus;
    const T r_scale = (soft ? 1 : 2) * in.step[i], q_scale = (soft ? 10 : 2) * in.q_scale[i];
    for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
        auto head = [&](int number) { return load(out + number * BLOCK<T> + k); };
        Vec<T> x = load(xs + k), v = load(vs + k), t = load(ts + k);
        Vec<T> R = r_scale * activated<T>(head(0), soft), Q = q_scale * activated<T>(head(1), soft);
        Vec<T> B = activated<T>(head(2), soft), pull = Q * v;
        if (in.biases) pull += head(3);
        Vec<T> next = soft_threshold(Vec<T>(x - R * load(gs + k) - pull + t), Vec<T>(lam * R)) - t;
        Vec<T> map = x - next;
        if (in.gradient_map == STD) map -= pull;
        if (in.gradient_map != LHNOR) map /= R + floor;
        Vec<T> average = (T(1) - B) * map + B * v;
        if (in.biases) average -= head(4);
        store(xs + k, next), store(vs + k, average), store(Rs + k, R), store(Qs + k, Q), store(Bs + k, B);
    }
    give(in.x_new + from, xs, count), give(in.v_new + from, vs, count);
    give(in.R + from, Rs, count), give(in.Q + from, Qs, count), give(in.B + from, Bs, count);
}

template <class T> void go_math(const GoMath<T>& in) {
    const Network<T> network(in.weights, 3, in.hidden, in.layers, in.biases ? 5 : 3, true);
    const int64_t padded = rounded_up(in.n, BLOCK<T>);
    const int64_t pieces = in.A || in.turn || in.batch >= 2 * in.threads ? 1 : padded / BLOCK<T>;  // tasks per instance
    const int64_t cost = padded / pieces * network.cost() + (in.A ? 2 * in.m * in.n : 0);
    parallel_foreseen(in.batch * pieces, cost, in.threads, [&](int64_t task, int64_t later) {
        const int64_t i = task / pieces, piece = task % pieces, n = in.n;
        T* work = scratch<T, 1>(network.room() + 7 * BLOCK<T> + 2 * padded);
        const T* g = in.g ? in.g + i * n : nullptr;
        Upcoming upcoming;
        if (in.A) {
            T *x = work + network.room() + 7 * BLOCK<T>, *slope = x + padded;
            std::memset(x, 0, padded * sizeof(T));
            for (int64_t j = 0; j < n; j++) x[j] = in.x[i * n + j] + (in.shift ? in.shift[i * n + j] : 0);
            gradient(in.A + i * in.m * n, in.b + i * in.m, x, slope, in.m, n);
            g = slope;
            if (later < in.batch) upcoming = Upcoming(in.A + later * in.m * n, in.m * n * int64_t(sizeof(T)));
        }
        if (in.turn) upcoming = Upcoming(in.turn->A + i * in.turn->m * n, in.turn->m * n * int64_t(sizeof(T)));
        const int64_t first = pieces == 1 ? 0 : piece * BLOCK<T>, end = pieces == 1 ? n : first + 1;
        for (int64_t at = first; at < end; at += BLOCK<T>) go_math_block(in, network, i, g, at, work, upcoming);
        if (in.turn) turn(*in.turn, i);
    });
}

// features (F, rows), outputs (heads, rows), memory (layers, hidden, stride)
template <class T> struct Forward {
    const T *features, *h, *c;
    T *out, *h_new, *c_new;
    const T* const* weights;
    int64_t rows, width, hidden, layers, stride, heads, inner, threads;
};

template <class T> void forward(const Forward<T>& in) {
    const Network<T> network(in.weights, in.width, in.hidden, in.layers, in.heads, in.inner);
    constexpr int64_t SHARE = 16 * BLOCK<T>;  // coordinates per task
    parallel(rounded_up(in.rows, SHARE) / SHARE, SHARE * network.cost(), in.threads, [&](int64_t task) {
        T* work = scratch<T, 1>(network.room());
        Upcoming nothing;
        const int64_t end = std::min(in.rows, (task + 1) * SHARE);
        for (int64_t at = task * SHARE; at < end; at += BLOCK<T>) {
            const int64_t count = std::min<int64_t>(end - at, BLOCK<T>);
            for (int k = 0; k < in.width; k++) take(work + k * BLOCK<T>, in.features + k * in.rows + at, count);
            const T* out = network.block(work, {in.h, in.c, in.h_new, in.c_new, in.stride}, at, count, nothing);
            for (int k = 0; k < in.heads; k++) give(in.out + k * in.rows + at, out + k * BLOCK<T>, count);
        }
    });
}
