#include "maxmargin/samples.hpp"

#include <algorithm>
#include <stdexcept>

#include "maxmargin/threads.hpp"

namespace maxmargin {
namespace {

std::int64_t padded(std::int64_t n) { return (n + panel_width - 1) / panel_width * panel_width; }

}  // namespace

template <class T>
template <class S>
Samples<T>::Samples(const DenseView<S>& view, const double* centre, Order order)
    : n_samples_(order.size(view.n_samples)), n_features_(view.n_features), dense_(n_samples_ * view.n_features) {
#pragma omp parallel for schedule(static) num_threads(threads_for(n_samples_* n_features_))
    for (std::int64_t i = 0; i < n_samples_; ++i) {
        const S* from = view.values + order.row(i) * view.row_stride;
        T* to = dense_.data() + i * n_features_;
        if (centre)
            for (int k = 0; k < n_features_; ++k) to[k] = static_cast<T>(from[k] - centre[k]);
        else
            for (int k = 0; k < n_features_; ++k) to[k] = static_cast<T>(from[k]);
    }
    take_norms();
}

template <class T>
template <class S, class I>
Samples<T>::Samples(const CsrView<S, I>& view, Order order)
    : n_samples_(order.size(view.n_samples)), n_features_(view.n_features), sparse_(true) {
    starts_.resize(n_samples_ + 1);
    for (std::int64_t i = 0; i < n_samples_; ++i)
        starts_[i + 1] = starts_[i] + (view.starts[order.row(i) + 1] - view.starts[order.row(i)]);
    features_.resize(starts_[n_samples_]);
    values_.resize(starts_[n_samples_]);
    Failure failure;
#pragma omp parallel for schedule(static) num_threads(threads_for(starts_[n_samples_]))
    for (std::int64_t i = 0; i < n_samples_; ++i)
        failure.guard([&] {
            const I first = view.starts[order.row(i)];
            check(view.features + first, n_values(i));
            std::copy_n(view.features + first, n_values(i), features_.data() + starts_[i]);
            std::copy_n(view.values + first, n_values(i), values_.data() + starts_[i]);
        });
    failure.rethrow();
    take_norms();
    take_set_sizes();
}

template <class T>
template <class I>
void Samples<T>::check(const I* features, std::int64_t n_values) const {
    for (std::int64_t v = 0; v < n_values; ++v)
        if (features[v] < (v > 0 ? features[v - 1] + 1 : 0) || features[v] >= n_features_)
            throw std::invalid_argument(
                "the column indices of a CSR row must ascend from 0 and stay below the number of columns");
}

template <class T>
Samples<T>::Samples(const Samples& all, const std::int32_t* ids, std::int64_t n_ids)
    : n_samples_(n_ids), n_features_(all.n_features_), sparse_(all.sparse_) {
    norms_.assign(padded(n_ids), T(0));
    for (std::int64_t a = 0; a < n_ids; ++a) norms_[a] = all.norms_[ids[a]];
    if (all.are_sets()) {
        set_sizes_.resize(n_ids);
        for (std::int64_t a = 0; a < n_ids; ++a) set_sizes_[a] = all.set_sizes_[ids[a]];
    }
    if (!sparse_) {
        dense_ = Buffer<T>(n_ids * n_features_);
#pragma omp parallel for schedule(static) num_threads(threads_for(n_ids* n_features_))
        for (std::int64_t a = 0; a < n_ids; ++a) std::copy_n(all.row(ids[a]), n_features_, dense_.data() + a * n_features_);
        return;
    }
    starts_.resize(n_ids + 1);
    for (std::int64_t a = 0; a < n_ids; ++a) starts_[a + 1] = starts_[a] + all.n_values(ids[a]);
    features_.resize(starts_[n_ids]);
    values_.resize(starts_[n_ids]);
#pragma omp parallel for schedule(static) num_threads(threads_for(starts_[n_ids]))
    for (std::int64_t a = 0; a < n_ids; ++a) {
        std::copy_n(all.features(ids[a]), all.n_values(ids[a]), features_.data() + starts_[a]);
        std::copy_n(all.values(ids[a]), all.n_values(ids[a]), values_.data() + starts_[a]);
    }
}

template <class T>
void Samples<T>::take_norms() {
    norms_.assign(padded(n_samples_), T(0));
#pragma omp parallel for schedule(static) num_threads(threads_for(n_stored()))
    for (std::int64_t i = 0; i < n_samples_; ++i) {
        const T* x = sparse_ ? values(i) : row(i);
        const std::int64_t length = sparse_ ? n_values(i) : n_features_;
        double sums[4] = {};  // an addition takes several cycles: these sums do not wait for each other
        std::int64_t k = 0;
        for (; k + 4 <= length; k += 4)
            for (int part = 0; part < 4; ++part) sums[part] += static_cast<double>(x[k + part]) * x[k + part];
        for (; k < length; ++k) sums[0] += static_cast<double>(x[k]) * x[k];
        norms_[i] = static_cast<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
}

template <class T>
void Samples<T>::take_set_sizes() {
    for (T value : values_)
        if (value != values_[0] || value == T(0)) return;
    for (std::int64_t i = 0; i < n_samples_; ++i)
        if (2 * n_values(i) > largest_count) return;
    set_sizes_.resize(n_samples_);
    for (std::int64_t i = 0; i < n_samples_; ++i) set_sizes_[i] = static_cast<std::uint8_t>(n_values(i));
}

template <class T>
void Samples<T>::make_panels() {
    if (has_panels() || sparse_) return;
    panels_ = Buffer<T>(padded(n_samples_) * n_features_);
#pragma omp parallel for schedule(static) num_threads(threads_for(n_samples_* n_features_))
    for (std::int64_t p = 0; p < (n_samples_ + panel_width - 1) / panel_width; ++p)
        write_panel(p, panels_.data() + p * panel_width * n_features_);
}

template <class T>
void Samples<T>::write_panel(std::int64_t p, T* panel) const {
    const std::int64_t start = p * panel_width;
    const int filled = static_cast<int>(std::min<std::int64_t>(panel_width, n_samples_ - start));
    if (filled < panel_width) std::fill_n(panel, panel_width * n_features_, T(0));
    constexpr int at_once = 64 / static_cast<int>(sizeof(T));  // samples, which fill a line of memory
    for (int j = 0; j < filled; j += at_once) {
        const int count = std::min(at_once, filled - j);
        const T* x = row(start + j);
        for (int k = 0; k < n_features_; ++k)
            for (int i = 0; i < count; ++i) panel[k * panel_width + j + i] = x[static_cast<std::ptrdiff_t>(i) * n_features_ + k];
    }
}

template <class T>
double squared_difference(const Samples<T>& a, std::int64_t i, const Samples<T>& b, std::int64_t j) {
    double sum = 0.0;
    auto add = [&](double difference) { sum += difference * difference; };
    if (!a.sparse()) {
        const T *x = a.row(i), *z = b.row(j);
        for (int k = 0; k < a.n_features(); ++k) add(static_cast<double>(x[k]) - static_cast<double>(z[k]));
        return sum;
    }
    std::int64_t v = 0, w = 0;
    while (v < a.n_values(i) && w < b.n_values(j)) {
        const std::int32_t p = a.features(i)[v], q = b.features(j)[w];
        if (p < q)
            add(a.values(i)[v++]);
        else if (p > q)
            add(b.values(j)[w++]);
        else
            add(static_cast<double>(a.values(i)[v++]) - static_cast<double>(b.values(j)[w++]));
    }
    for (; v < a.n_values(i); ++v) add(a.values(i)[v]);
    for (; w < b.n_values(j); ++w) add(b.values(j)[w]);
    return sum;
}

#define MAXMARGIN_SAMPLES(T)                                                                              \
    template class Samples<T>;                                                                            \
    template double squared_difference(const Samples<T>&, std::int64_t, const Samples<T>&, std::int64_t); \
    template Samples<T>::Samples(const DenseView<float>&, const double*, Order);                          \
    template Samples<T>::Samples(const DenseView<double>&, const double*, Order);                         \
    template Samples<T>::Samples(const CsrView<float, std::int32_t>&, Order);                             \
    template Samples<T>::Samples(const CsrView<double, std::int32_t>&, Order);                            \
    template Samples<T>::Samples(const CsrView<float, std::int64_t>&, Order);                             \
    template Samples<T>::Samples(const CsrView<double, std::int64_t>&, Order);
MAXMARGIN_SAMPLES(float)
MAXMARGIN_SAMPLES(double)

}  // namespace maxmargin
