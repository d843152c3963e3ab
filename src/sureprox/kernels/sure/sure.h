// A step of Sure for f = 1/2 |A x - b|^2 or a known gradient, and r = lam |x|_1.
#pragma once
#include "runtime/numbers.h"
#include "sure/sure_step.h"
#include "sure/sure_network.h"

// Contiguous: vectors (B, n), scalars (B), memory (B, instance) and (B, coordinate, n). A and b, or the gradient g;
// shift may be null. R is (B) where coordinate = 0, and P where there is no conjugate share either.
template <class T> struct Sure {
    const T *A, *b, *g, *shift, *lam, *step, *x, *x_before, *g_before, *G_before, *side_before, *G_first, *t, *momentum;
    const T *fresh, *instance_h, *instance_c, *coordinate_h, *coordinate_c;
    T *x_new, *x_before_new, *g_before_new, *G_before_new, *side_before_new, *G_first_new, *t_new, *momentum_new;
    T *instance_h_new, *instance_c_new, *coordinate_h_new, *coordinate_c_new, *R, *P;
    const T* const* weights;
    int64_t batch, m, n, instance, coordinate, conjugate, threads;
};

// One instance; its rows lie in `work`, each `padded` long and zero beyond n.
template <class T> struct SureStep {
    const Sure<T>& in;
    const SureNetwork<T>& network;
    const int64_t i, n, padded;
    T *x, *g, *shift, *d, *dg, *G, *side, *stable, *slope, *R, *P, *ahead, *share, *x_next, *base, *spare;
    Instance<T> own;

    static constexpr int ROWS_OF_WORK = 15;

    SureStep(const Sure<T>& in, const SureNetwork<T>& network, int64_t i, T* work)
        : in(in), network(network), i(i), n(in.n), padded(rounded_up(in.n, BLOCK<T>)) {
        T** rows[] = {&x, &g, &shift, &d, &dg, &G, &side, &stable, &slope, &R, &P, &ahead, &share, &x_next, &base};
        for (T** row : rows) *row = work, work += padded;
        spare = work;
        own.lam = in.lam[i], own.inverse_L = in.step[i], own.L = 1 / own.inverse_L, own.fresh = in.fresh[i] > 0;
        filled(x, in.x), filled(shift, in.shift);
        if (in.A) {
            for (int64_t j = 0; j < padded; j++) base[j] = x[j] + shift[j];
            gradient(in.A + i * in.m * n, in.b + i * in.m, base, g, in.m, n);
            std::memset(g + n, 0, (padded - n) * sizeof(T));
        } else {
            filled(g, in.g);
        }
    }

    void filled(T* to, const T* from) const {
        if (from) std::memcpy(to, from + i * n, n * sizeof(T));
        std::memset(to + (from ? n : 0), 0, (padded - (from ? n : 0)) * sizeof(T));
    }
    void given(T* to, const T* from) const { std::memcpy(to + i * n, from, n * sizeof(T)); }

    // What there is to know about the coordinates, and the features of the instance
    void observe(T* features) {
        T *gb = R, *Gb = P, *sb = ahead;  // not needed yet
        filled(d, in.x_before), filled(gb, in.g_before), filled(Gb, in.G_before), filled(sb, in.side_before);
        Vec<T> sums[SUMS] = {};
        const Vec<T> zero{}, one = all(T(1));
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Vec<T> at = load(x + j);
            const auto p = point<Vec<T>>(at + load(shift + j), load(g + j), at - load(d + j), load(gb + j), load(Gb + j),
                                         load(sb + j), own);
            add(p, sums);
            store(d + j, p.d), store(dg + j, p.dg), store(G + j, p.G), store(side + j, p.side);
            store(stable + j, p.stable ? one : zero), store(slope + j, p.slope);
        }
        T value[SUMS];
        for (int k = 0; k < SUMS; k++) value[k] = total<T>(sums[k]);
        value[12] -= own.lam == 0 ? padded - n : 0;  // r = 0 is smooth beyond n, too
        value[14] = own.lam * own.lam * n;           // beyond n its subdifferential is as large as elsewhere
        T first = in.G_first[i];
        instance_features(value, T(n), in.momentum[i], in.fresh[i], own, first, features);
        in.G_first_new[i] = first;
    }

    Point<Vec<T>> seen(int64_t j) const {
        Point<Vec<T>> p;
        p.y = load(x + j) + load(shift + j), p.g = load(g + j), p.G = load(G + j), p.d = load(d + j);
        p.dg = load(dg + j), p.stable = load(stable + j) > 0;
        place(p, own.lam);
        return p;
    }
    void keep(int64_t j, const Diagonals<Vec<T>>& by) {
        store(R + j, by.R), store(P + j, by.P), store(ahead + j, by.ahead), store(share + j, by.share);
    }

    // R, P, ahead and share of every coordinate, from its own outputs
    void coordinate_outputs(const T* out) {
        std::vector<T> gates(4 * network.coordinate), heads(OUTPUTS);
        network.tell(in.instance_h_new + i * in.instance, out, gates.data(), heads.data());
        const int64_t memory = i * in.coordinate * n;
        Vec<T> sum{}, features[SEEN_COORDINATE], outputs[OUTPUTS];
        for (int64_t at = 0; at < n; at += BLOCK<T>) {
            for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
                coordinate_features(seen(at + k), own, features);
                for (int f = 0; f < SEEN_COORDINATE; f++) store(spare + f * BLOCK<T> + k, features[f]);
            }
            const T* o = network.coordinates(spare, gates.data(), heads.data(), in.coordinate_h + memory,
                                             in.coordinate_c + memory, in.coordinate_h_new + memory,
                                             in.coordinate_c_new + memory, n, at, std::min<int64_t>(n - at, BLOCK<T>));
            for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
                for (int number = 0; number < OUTPUTS; number++) outputs[number] = load(o + number * BLOCK<T> + k);
                const Point<Vec<T>> p = seen(at + k);
                const auto by = diagonals(outputs, bool(in.conjugate), own);
                keep(at + k, by);
                if (in.conjugate) sum += load(stable + at + k) * turning(p, by.R, own.line);
            }
        }
        own.turned = total<T>(sum);
    }

    void same_outputs(const T* out) {
        const auto by = diagonals(out, bool(in.conjugate), own);
        for (int64_t j = 0; j < padded; j += LANES<T>) keep(j, {all(by.R), all(by.P), all(by.ahead), all(by.share)});
        own.turned *= by.R;
    }

    // The next x, and whether the momentum restarts
    void update() {
        const T beta = conjugate_beta(own.turned, own.curvature);
        Vec<T> sum{};
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Point<Vec<T>> p = seen(j);
            const Diagonals<Vec<T>> by{load(R + j), load(P + j), load(ahead + j), load(share + j)};
            const auto made = moved(p, by, beta, bool(in.conjugate), own);
            sum += made.against;
            store(x_next + j, made.next - load(shift + j)), store(base + j, load(x + j) + made.searched * p.d);
            store(g + j, made.g), store(P + j, made.P);
        }
        const T t = total<T>(sum) > 0 ? T(1) : in.t[i], t_next = next_pace(t);
        in.t_new[i] = t_next, in.momentum_new[i] = momentum_of(t, t_next);
    }

    void run() {
        T features[SEEN_INSTANCE], out[OUTPUTS] = {};
        observe(features);
        const int64_t memory = i * in.instance;
        network.instances(features, in.instance_h + memory, in.instance_c + memory, in.instance_h_new + memory,
                          in.instance_c_new + memory, out);
        if (in.coordinate) coordinate_outputs(out);
        else same_outputs(out);
        update();
        given(in.x_new, x_next), given(in.x_before_new, base), given(in.g_before_new, g);
        given(in.G_before_new, G), given(in.side_before_new, side);
        if (in.coordinate) given(in.R, R);
        else in.R[i] = R[0];
        if (in.coordinate || in.conjugate) given(in.P, P);
        else in.P[i] = P[0];
    }
};

template <class T> void sure(const Sure<T>& in) {
    const SureNetwork<T> network(in.weights, in.instance, in.coordinate, in.conjugate ? 4 : 3);
    const int64_t padded = rounded_up(in.n, BLOCK<T>);
    parallel(in.batch, 2 * in.m * in.n + network.cost() * in.n, in.threads, [&](int64_t i) {
        SureStep<T>(in, network, i, scratch<T, 1>(SureStep<T>::ROWS_OF_WORK * padded + network.room())).run();
    });
}
