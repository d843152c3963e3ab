// Restarted FISTA on min 1/2 |y - D'p|^2, |p_i| <= lam, D the forward differences of an image (h, w): the specification
// is sureprox/support/total_variation.py. One sweep over the rows is one step: x = y - D'q is there for two rows only.
//
// q = p + momentum (p - before) is made where it is read, and the new p takes the place of `before`, whose numbers are
// not read again. Rows have a coordinate more than they need, zero, beyond each end.
#pragma once
#include <utility>
#include "runtime/parallel.h"

// y (B, h w), lam (B), p and before (B, (h - 1) w + h (w - 1)), momentum (B, 2): t and the factor of p - before;
// out (B, 2): the duality gap and the objective at p, sums in float64
template <class T> struct TotalVariation {
    const T *y, *lam;
    T *p, *before;
    double *momentum, *out;
    int64_t batch, h, w, steps, isotropic, threads;
};

// The two parts of a vector of differences: of each pixel and the one below, and the one to the right
template <class T> struct Parts {
    T *down, *right;
    Parts(T* p, int64_t h, int64_t w) : down(p), right(p + (h - 1) * w) {}
};

// Of `count` pixels of a row: p = P(q + step D x), and what it adds to <q - p, p - old>, `turn`. The last row has no
// differences down: q, p and old of one, zero, serve all its pixels.
template <class T, bool isotropic>
void projected(int64_t count, T lam, T least, T step, const T* __restrict x, const T* __restrict next,
               const T* __restrict q_down, const T* __restrict q_right, const T* __restrict old_down,
               const T* __restrict old_right, T* __restrict down, T* __restrict right, T* __restrict turn) {
    for (int64_t j = 0; j < count; j++) {
        T a = q_down[j] + step * (next[j] - x[j]), b = q_right[j] + step * (x[j + 1] - x[j]);
        if (isotropic) {
            const T size = std::sqrt(a * a + b * b), share = lam / (size > least ? size : least);
            a *= share, b *= share;
        } else {
            a = a > lam ? lam : a < -lam ? -lam : a, b = b > lam ? lam : b < -lam ? -lam : b;
        }
        turn[j] += (q_down[j] - a) * (a - old_down[j]) + (q_right[j] - b) * (b - old_right[j]);
        down[j] = a, right[j] = b;
    }
}

template <class T> struct Sweep {
    const int64_t h, w;
    const T* y;
    const T lam, least, step;  // least: lam, or the least number above zero
    const bool isotropic;
    // of a row: q below the one before, below, to the right; x there and one row on; sums of each column
    T *above, *below, *right, *x, *next, *turn, *later, *spare, *zeros;

    // q of row i, `below` zero in the last one, `right` zero beyond the ends: right[-1] and right[w - 1]
    IN_PLACE void extrapolate(const Parts<T>& p, const Parts<T>& before, T factor, int64_t i, T* down, T* side) const {
        if (i < h - 1)
            for (int64_t j = 0; j < w; j++) {
                const T a = p.down[i * w + j];
                down[j] = a + factor * (a - before.down[i * w + j]);
            }
        else std::memset(down, 0, w * sizeof(T));
        const T *a = p.right + i * (w - 1), *b = before.right + i * (w - 1);
        for (int64_t j = 0; j < w - 1; j++) side[j] = a[j] + factor * (a[j] - b[j]);
        side[w - 1] = 0;
    }

    // x = y - D'q
    IN_PLACE void primal(int64_t i, const T* up, const T* down, const T* side, T* into) const {
        for (int64_t j = 0; j < w; j++) into[j] = y[i * w + j] + (down[j] - up[j]) + (side[j] - side[j - 1]);
        into[w] = into[w - 1];
    }

    // One step; whether the new p - p points against q - p: then momentum is lost
    bool operator()(const Parts<T>& p, const Parts<T>& before, T factor) {
        std::memset(above, 0, w * sizeof(T));
        std::memset(turn, 0, w * sizeof(T));
        std::memset(zeros, 0, w * sizeof(T));
        right[-1] = later[-1] = 0;
        extrapolate(p, before, factor, 0, below, right);
        primal(0, above, below, right, x);
        double turned = 0;
        for (int64_t i = 0; i < h; i++) {
            if (i < h - 1) {
                extrapolate(p, before, factor, i + 1, above, later);
                primal(i + 1, below, above, later, next);
            } else std::memcpy(next, x, w * sizeof(T));
            const bool last = i == h - 1;
            // what lies beyond an end of `before` and p, to the right or down, is read and written elsewhere
            T *down = last ? spare : before.down + i * w, *side = before.right + i * (w - 1);
            const T *old_down = last ? zeros : p.down + i * w, *old_side = p.right + i * (w - 1);
            const auto step_of = isotropic ? projected<T, true> : projected<T, false>;
            step_of(w - 1, lam, least, step, x, next, below, right, old_down, old_side, down, side, turn);
            T beyond;
            step_of(1, lam, least, step, x + w - 1, next + w - 1, below + w - 1, right + w - 1, old_down + w - 1, zeros,
                    down + w - 1, &beyond, turn + w - 1);
            if (i % 64 == 63 || i == h - 1) {  // before too many numbers of low precision are added
                for (int64_t j = 0; j < w; j++) turned += turn[j], turn[j] = 0;
            }
            std::swap(x, next), std::swap(above, below), std::swap(right, later);
        }
        return turned > 0;
    }

    // sum lam |D_i x| - p_i D_i x and 1/2 |x - y|^2 + lam sum |D_i x| where x = y - D'p
    void judge(const Parts<T>& p, double* out) {
        std::memset(above, 0, w * sizeof(T));
        right[-1] = later[-1] = 0;
        extrapolate(p, p, 0, 0, below, right);
        primal(0, above, below, right, x);
        double gap = 0, variation = 0, squares = 0;
        for (int64_t i = 0; i < h; i++) {
            if (i < h - 1) {
                extrapolate(p, p, 0, i + 1, above, later);
                primal(i + 1, below, above, later, next);
            } else std::memcpy(next, x, w * sizeof(T));
            for (int64_t j = 0; j < w; j++) {
                const double down = double(next[j]) - x[j], side = double(x[j + 1]) - x[j];
                const double size = isotropic ? std::sqrt(down * down + side * side) : std::abs(down) + std::abs(side);
                const double away = double(x[j]) - y[i * w + j];
                variation += size, gap += lam * size - below[j] * down - right[j] * side, squares += away * away;
            }
            std::swap(x, next), std::swap(above, below), std::swap(right, later);
        }
        out[0] = std::max(gap, 0.0), out[1] = squares / 2 + lam * variation;
    }
};

template <class T> void total_variation(const TotalVariation<T>& in) {
    const int64_t h = in.h, w = in.w, pixels = h * w, size = (h - 1) * w + h * (w - 1), row = rounded_up(w + 2, 64);
    parallel(in.batch, 32 * pixels * in.steps, in.threads, [&](int64_t i) {
        T* rows = scratch<T, 1>(9 * row + 64) + 1;
        const T lam = in.lam[i], least = std::max(lam, std::numeric_limits<T>::min());
        Sweep<T> sweep{h, w, in.y + i * pixels, lam, least, T(h > 1 && w > 1 ? 0.125 : 0.25), bool(in.isotropic),
                       rows, rows + row, rows + 2 * row, rows + 3 * row, rows + 4 * row, rows + 5 * row, rows + 6 * row,
                       rows + 7 * row, rows + 8 * row};
        T *p = in.p + i * size, *before = in.before + i * size;
        double &t = in.momentum[2 * i], &factor = in.momentum[2 * i + 1];
        for (int64_t k = 0; k < in.steps; k++) {
            const bool turned = sweep(Parts<T>(p, h, w), Parts<T>(before, h, w), T(factor));
            std::swap(p, before);
            const double after = turned ? 1 : (1 + std::sqrt(1 + 4 * t * t)) / 2;
            factor = turned ? 0 : (t - 1) / after, t = after;
        }
        if (in.steps % 2) std::swap_ranges(p, p + size, before), std::swap(p, before);
        sweep.judge(Parts<T>(p, h, w), in.out + 2 * i);
    });
}
