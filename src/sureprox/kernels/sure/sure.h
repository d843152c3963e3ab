// A step of Sure for f = 1/2 |A x - b|^2 or a known gradient, and r = lam |x|_1.
#pragma once
#include "sure/sure_network.h"

// Contiguous: vectors (B, n), scalars (B), memory (B, instance) and (B, coordinate, n). A and b, or the gradient g;
// shift may be null. R is (B) where coordinate = 0, and P where there is no conjugate share either.
template <class T> struct Sure {
    const T *A, *b, *g, *shift, *lam, *step, *x, *x_before, *g_before, *G_before, *side_before, *G_first, *t, *momentum;
    const T *fresh, *instance_h, *instance_c, *coordinate_h, *coordinate_c;
    const T* constants;  // least and largest momentum, log_2 of the reach of R, reluctance
    T *x_new, *x_before_new, *g_before_new, *G_before_new, *side_before_new, *G_first_new, *t_new, *momentum_new;
    T *instance_h_new, *instance_c_new, *coordinate_h_new, *coordinate_c_new, *R, *P;
    const T* const* weights;
    int64_t batch, m, n, instance, coordinate, conjugate, threads;
};

template <class T> T cut(T v, T low, T high) { return v < low ? low : (v > high ? high : v); }
template <class T> T log10_within(T v, T low, T high) { return std::log10(cut(v, low, high)); }
template <class T> T plain_sigmoid(T v) { return T(1) / (T(1) + std::exp(-v)); }

// One instance; its rows lie in `work`, each `padded` long and zero beyond n.
template <class T> struct SureStep {
    const Sure<T>& in;
    const SureNetwork<T>& network;
    const int64_t i, n, padded;
    T *x, *g, *shift, *d, *dg, *G, *side, *stable, *slope, *R, *P, *ahead, *share, *x_next, *base, *spare;
    T lam, inverse_L, L, floor;
    bool fresh;
    T GG, PP, dd, qq, dq, Gd, GP, line, beta, curvature, turned, smooth, changed;

    static constexpr int ROWS_OF_WORK = 15;

    SureStep(const Sure<T>& in, const SureNetwork<T>& network, int64_t i, T* work)
        : in(in), network(network), i(i), n(in.n), padded(rounded_up(in.n, BLOCK<T>)) {
        T** rows[] = {&x, &g, &shift, &d, &dg, &G, &side, &stable, &slope, &R, &P, &ahead, &share, &x_next, &base};
        for (T** row : rows) *row = work, work += padded;
        spare = work;
        lam = in.lam[i], inverse_L = in.step[i], L = 1 / inverse_L, fresh = in.fresh[i] > 0;
        floor = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
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

    // Where -g lies with respect to the subdifferential, G, and the inner products of G, the previous G, d, dg, slope
    void observe() {
        T *gb = R, *Gb = P, *sb = ahead;  // not needed yet
        filled(d, in.x_before), filled(gb, in.g_before), filled(Gb, in.G_before), filled(sb, in.side_before);
        Vec<T> sums[14] = {};
        const Vec<T> zero{}, one = all(T(1)), both = all(lam);
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Vec<T> at = load(x + j), t = load(shift + j), z = at + t, grad = load(g + j);
            const Vec<T> move = at - load(d + j), turn = fresh ? zero : grad - load(gb + j);
            const Vec<T> centre = z > 0 ? both : (z < 0 ? -both : zero), kink = z == 0 ? both : zero;
            const Vec<T> low = centre - kink, high = centre + kink, middle = low + high;
            const Vec<T> where = middle > 0 ? one : (middle < 0 ? -one : zero), is_smooth = low == high ? one : zero;
            const Vec<T> down = low == high ? grad + low : zero;
            const Vec<T> proximal = soft_threshold<T>(at - inverse_L * grad + t, both * inverse_L) - t;
            const Vec<T> map = (at - proximal) / inverse_L, map_before = fresh ? map : load(Gb + j);
            const Vec<T> side_was = fresh ? where : load(sb + j), differs = where == side_was ? zero : one;
            const Vec<T> on = is_smooth * (one - differs), d_on = on * move, dg_on = on * turn;
            const Vec<T> terms[14] = {map * map,  map_before * map_before, move * move,  turn * turn, move * turn,
                                      map * move, map * map_before,        down * d_on,  down * dg_on, move * d_on,
                                      move * dg_on, turn * dg_on,          is_smooth,    differs};
            for (int k = 0; k < 14; k++) sums[k] += terms[k];
            store(d + j, move), store(dg + j, turn), store(G + j, map), store(side + j, where);
            store(stable + j, on), store(slope + j, down);
        }
        T value[14];
        for (int k = 0; k < 14; k++) value[k] = total<T>(sums[k]);
        GG = value[0], PP = value[1], dd = value[2], qq = value[3], dq = value[4], Gd = value[5], GP = value[6];
        const T sd = value[7], sq = value[8], dd_on = value[9], dq_on = value[10], qq_on = value[11];
        smooth = value[12] - (lam == 0 ? padded - n : 0), changed = value[13];  // r = 0 is smooth beyond n, too
        const T least = T(1e-5) * L * dd_on;
        curvature = (dq_on < least ? least : dq_on) + floor;
        line = cut(-sd / curvature, T(-1), T(20));
        turned = sq + line * qq_on;
        beta = cut(turned / curvature / L, T(-5), T(5));
        in.G_first_new[i] = fresh ? std::sqrt(GG + floor) : in.G_first[i];
    }

    void instance_features(T* features) const {
        const T size_G = std::sqrt(GG + floor), size_P = std::sqrt(PP + floor), size_d = std::sqrt(dd + floor);
        const T size = lam * std::sqrt(T(n)) + floor, Ldq = L * dq;
        const T values[INSTANCE] = {
            T(0.5) * std::asinh(line),
            T(0.5) * std::asinh(beta),
            T(0.3) * log10_within(size_G / in.G_first_new[i], T(1e-9), T(1e3)),
            2 * log10_within(size_G / size_P, T(0.1), T(10)),
            Gd / (size_d * size_G),
            GP / (size_G * size_P),
            T(0.5) * log10_within(dq / (L * dd + floor), T(1e-5), T(1)) + 1,
            T(0.5) * log10_within(qq / (Ldq < floor ? floor : Ldq), T(1e-4), T(1)) + T(0.5),
            T(0.5) * log10_within(L * size_d / size_G, T(1e-3), T(1e4)) - T(0.3),
            2 * smooth / n - T(0.5),
            T(0.5) * std::log10(changed / n + T(1e-3)) + 1,
            T(0.2) * log10_within(size_G / size, T(1e-8), T(1e6)) + T(0.3),
            in.momentum[i],
            in.fresh[i],
        };
        std::memcpy(features, values, sizeof values);
    }

    // R, P, ahead and share of every coordinate, from its own outputs
    void coordinate_outputs(const T* out, T logit) {
        std::vector<T> gates(4 * network.coordinate), heads(OUTPUTS);
        network.tell(in.instance_h_new + i * in.instance, out, gates.data(), heads.data());
        const T sG = std::sqrt(n / (GG + floor)), sd = std::sqrt(n / (dd + floor)), sq = std::sqrt(n / (qq + floor));
        const int64_t memory = i * in.coordinate * n;
        const T half = 0.5;
        Vec<T> sum{};
        for (int64_t at = 0; at < n; at += BLOCK<T>) {
            for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
                const int64_t j = at + k;
                const Vec<T> grad = load(g + j), size = absolute<T>(grad), z = load(x + j) + load(shift + j);
                const Vec<T> scaled_G = sG * load(G + j), scaled_d = sd * load(d + j);
                const Vec<T> span = all(lam), least = all(floor), one = all(T(1));
                const Vec<T> features[COORDINATE] = {
                    grad / upper<T>(span + size, least),
                    load(side + j),
                    lam == 0 ? all(half) : (z == 0 ? all(-half) : all(half)),
                    half * asinh<T>(scaled_G),
                    half * asinh<T>(scaled_d),
                    half * asinh<T>(sq * load(dg + j)),
                    half * asinh<T>(scaled_G * scaled_d),
                    lower<T>(upper<T>((size - span) / upper<T>(span, least), -one), one),
                };
                for (int f = 0; f < COORDINATE; f++) store(spare + f * BLOCK<T> + k, features[f]);
            }
            const T* o = network.coordinates(spare, gates.data(), heads.data(), in.coordinate_h + memory,
                                             in.coordinate_c + memory, in.coordinate_h_new + memory,
                                             in.coordinate_c_new + memory, n, at, std::min<int64_t>(n - at, BLOCK<T>));
            for (int k = 0; k < BLOCK<T>; k += LANES<T>) {
                const int64_t j = at + k;
                auto output = [&](int number) { return load(o + number * BLOCK<T> + k); };
                const Vec<T> r = inverse_L * exp2<T>(in.constants[2] * tanh<T>(output(0)));
                const Vec<T> p = sigmoid<T>(logit + output(1)), turn = load(dg + j);
                store(R + j, r), store(P + j, p), store(ahead + j, 2 * sigmoid<T>(output(2)) * p);
                if (!in.conjugate) continue;
                store(share + j, load(stable + j) * sigmoid<T>(output(3) - in.constants[3]));
                sum += load(stable + j) * r * (load(slope + j) + line * turn) * turn;
            }
        }
        turned = total<T>(sum);
    }

    void same_outputs(const T* out, T logit) {
        const T r = inverse_L * std::exp2(in.constants[2] * std::tanh(out[0])), p = plain_sigmoid(logit + out[1]);
        const T forward = 2 * plain_sigmoid(out[2]) * p;
        const T part = in.conjugate ? plain_sigmoid(out[3] - in.constants[3]) : T(0);
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            store(R + j, all(r)), store(P + j, all(p)), store(ahead + j, all(forward));
            store(share + j, part * load(stable + j));
        }
        turned *= r;
    }

    // x+ = prox_{r,R}(base + P d - R (g + ahead dg)), and whether the momentum restarts
    void update() {
        const T conjugate_beta = cut(turned / curvature, T(-5), T(5));
        Vec<T> sum{};
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Vec<T> at = load(x + j), t = load(shift + j), r = load(R + j);
            const Vec<T> move = load(d + j), turn = load(dg + j);
            Vec<T> p = load(P + j), forward = load(ahead + j), grad = load(g + j), from = at;
            if (in.conjugate) {
                const Vec<T> part = load(share + j), searched = part * line;
                p += part * (conjugate_beta - p), forward *= T(1) - part;
                from += searched * move, grad += searched * turn;
            }
            const Vec<T> y = from + p * move;
            const Vec<T> next = soft_threshold<T>(y - r * (grad + forward * turn) + t, lam * r) - t;
            sum += (y - next) / r * (next - at);
            store(x_next + j, next), store(base + j, from), store(g + j, grad), store(P + j, p);
        }
        const T t = total<T>(sum) > 0 ? T(1) : in.t[i], t_next = (1 + std::sqrt(1 + 4 * t * t)) / 2;
        in.t_new[i] = t_next, in.momentum_new[i] = (t - 1) / t_next;
    }

    void run() {
        observe();
        T features[INSTANCE], out[OUTPUTS] = {};
        instance_features(features);
        const int64_t memory = i * in.instance;
        network.instances(features, in.instance_h + memory, in.instance_c + memory, in.instance_h_new + memory,
                          in.instance_c_new + memory, out);
        const T m = cut(in.momentum[i], in.constants[0], in.constants[1]), logit = std::log(m / (1 - m));
        if (in.coordinate) coordinate_outputs(out, logit);
        else same_outputs(out, logit);
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
