// Products of a training set with vectors, on several threads, the same bits whatever their number.
//
// The rows are cut into parts; the number of parts depends on the data alone. Sums over rows are taken part by part and the parts
// are added in their order, so no result depends on which thread did what. The data are read where they are, never copied.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "maxmargin/loops.hpp"
#include "maxmargin/memory.hpp"
#include "maxmargin/samples.hpp"
#include "maxmargin/threads.hpp"

namespace maxmargin {

template <class S>
inline std::int64_t stored_values(const DenseView<S>& X) {
    return X.n_samples * X.n_features;
}
template <class S, class I>
inline std::int64_t stored_values(const CsrView<S, I>& X) {
    return X.n_samples ? static_cast<std::int64_t>(X.starts[X.n_samples] - X.starts[0]) : 0;
}
template <class S>
inline double dot_row(const DenseView<S>& X, std::int64_t i, const double* w) {
    return loops<S>().dot(X.values + i * X.row_stride, w, X.n_features);
}
template <class S, class I>
inline double dot_row(const CsrView<S, I>& X, std::int64_t i, const double* w) {
    const I *k = X.features + X.starts[i], *end = X.features + X.starts[i + 1];
    const S* x = X.values + X.starts[i];
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;  // four sums, so that an addition need not wait for the one before
    for (; end - k >= 4; k += 4, x += 4) {
        a += w[k[0]] * x[0];
        b += w[k[1]] * x[1];
        c += w[k[2]] * x[2];
        d += w[k[3]] * x[3];
    }
    for (; k < end; ++k, ++x) a += w[*k] * *x;
    return (a + b) + (c + d);
}

// out += weight x_i
template <class S>
inline void add_row(const DenseView<S>& X, std::int64_t i, double weight, double* out) {
    loops<S>().add(weight, X.values + i * X.row_stride, out, X.n_features);
}
template <class S, class I>
inline void add_row(const CsrView<S, I>& X, std::int64_t i, double weight, double* out) {
    const I *k = X.features + X.starts[i], *end = X.features + X.starts[i + 1];
    const S* x = X.values + X.starts[i];
    for (; k < end; ++k, ++x) out[*k] += weight * *x;
}

template <class S>
inline double square_of_row(const DenseView<S>& X, std::int64_t i) {
    return loops<S>().square(X.values + i * X.row_stride, X.n_features);
}
template <class S, class I>
inline double square_of_row(const CsrView<S, I>& X, std::int64_t i) {
    double sum = 0.0;
    for (I v = X.starts[i]; v < X.starts[i + 1]; ++v) sum += static_cast<double>(X.values[v]) * X.values[v];
    return sum;
}

// Ask for what `prefetch_row` reads.
template <class S>
inline void announce_row(const DenseView<S>&, std::int64_t) {}
template <class S, class I>
inline void announce_row(const CsrView<S, I>& X, std::int64_t i) {
    __builtin_prefetch(X.starts + i);
}

// Ask for a row that will be read soon.
template <class S>
inline void prefetch_row(const DenseView<S>& X, std::int64_t i) {
    const char* row = reinterpret_cast<const char*>(X.values + i * X.row_stride);
    const std::int64_t bytes = std::min<std::int64_t>(X.n_features * sizeof(S), 1024);
    for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}
template <class S, class I>
inline void prefetch_row(const CsrView<S, I>& X, std::int64_t i) {
    const std::int64_t start = X.starts[i], size = std::min<std::int64_t>(X.starts[i + 1] - X.starts[i], 128);
    const char *k = reinterpret_cast<const char*>(X.features + start), *x = reinterpret_cast<const char*>(X.values + start);
    for (std::int64_t at = 0; at < size * static_cast<std::int64_t>(sizeof(I)); at += 64) __builtin_prefetch(k + at);
    for (std::int64_t at = 0; at < size * static_cast<std::int64_t>(sizeof(S)); at += 64) __builtin_prefetch(x + at);
}

// The parts of the rows, of equal size.
class Parts {
public:
    static constexpr int most = 16;  // also the most threads that one machine can use
    static constexpr std::int64_t values_worth_a_part = 1 << 15;
    static constexpr std::int64_t values_worth_threads = 1 << 18;  // a pass over fewer takes less time than a core takes to join
    static constexpr std::int64_t values_per_sum = 4;  // a part has a sum of its own for each column: it must be worth it

    Parts(std::int64_t n_rows, std::int64_t values, std::int64_t columns) {
        const std::int64_t least = std::max(values_worth_a_part, values_per_sum * columns);
        const std::int64_t count = std::clamp<std::int64_t>((values + n_rows) / least, 1, most);
        alone_ = values < values_worth_threads;
        for (std::int64_t p = 0; p <= count; ++p) edges_.push_back(n_rows * p / count);
    }
    int size() const { return static_cast<int>(edges_.size()) - 1; }
    std::int64_t begin(int p) const { return edges_[p]; }
    std::int64_t end(int p) const { return edges_[p + 1]; }

    // visit(p, first, last) for each part, on all threads
    template <class Visit>
    void each(Visit visit) const {
        const int threads = alone_ ? 1 : std::min(size(), n_threads());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int p = 0; p < size(); ++p) visit(p, edges_[p], edges_[p + 1]);
    }

private:
    std::vector<std::int64_t> edges_;
    bool alone_;
};

}  // namespace maxmargin
