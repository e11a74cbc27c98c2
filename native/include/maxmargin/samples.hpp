// A set of samples in the form that the loops need: dense rows (and panels, if there are few features), or CSR. CSR samples whose
// stored values are all the same number are *sets* of features: their products and distances are multiples of its square, and the
// factor is counted.
#pragma once
#include <cstdint>
#include <vector>

#include "maxmargin/kernel.hpp"
#include "maxmargin/loops.hpp"
#include "maxmargin/memory.hpp"

namespace maxmargin {

// Up to this many features a panel stays in the second-level cache and plain loops over it are as fast as BLAS.
inline constexpr int most_features_for_panels = 256;
// Up to this many features, squared distances are sums of squared differences: more accurate than |x|^2 + |z|^2 - 2 <x, z>, and
// no slower.
inline constexpr int most_features_for_differences = 12;
// The same limit for exact sums: differences take twice the work of products, but do not cancel.
inline constexpr int most_features_for_exact_differences = 64;

// The largest number that is counted for a pair of sets, so that it fits into a byte: twice the size of the largest set.
inline constexpr int largest_count = 126;

template <class S>
struct DenseView {
    const S* values;
    std::int64_t n_samples, row_stride;
    int n_features;
};

template <class S, class I>
struct CsrView {
    const I* starts;
    const I* features;
    const S* values;
    std::int64_t n_samples;
    int n_features;
};

// Some rows of a view, in a given order. Without ids: all rows.
struct Order {
    const std::int32_t* ids = nullptr;
    std::int64_t n_ids = 0;

    std::int64_t size(std::int64_t n_rows) const { return ids ? n_ids : n_rows; }
    std::int64_t row(std::int64_t i) const { return ids ? ids[i] : i; }
};

template <class T>
class Samples {
public:
    // Copies the samples in `order`, less `centre` if it is given, and computes their squared norms.
    template <class S>
    Samples(const DenseView<S>& view, const double* centre, Order order = {});
    // The features of a sample must ascend; one that is out of range is an error (std::invalid_argument).
    template <class S, class I>
    explicit Samples(const CsrView<S, I>& view, Order order = {});

    // The samples `ids`, in that order.
    Samples(const Samples& all, const std::int32_t* ids, std::int64_t n_ids);

    std::int64_t size() const { return n_samples_; }
    int n_features() const { return n_features_; }
    bool sparse() const { return sparse_; }
    // Whether the samples are sets of at most largest_count / 2 features.
    bool are_sets() const { return !set_sizes_.empty(); }
    const std::uint8_t* set_sizes() const { return set_sizes_.data(); }
    // Whether both are sets, of the same stored value.
    friend bool are_alike_sets(const Samples& a, const Samples& b) {
        return a.are_sets() && b.are_sets() && a.stored_value() == b.stored_value();
    }
    T stored_value() const { return values_.empty() ? T(1) : values_[0]; }  // of sets
    std::int64_t n_stored() const { return static_cast<std::int64_t>(sparse_ ? values_.size() : dense_.size()); }

    const T* row(std::int64_t i) const { return dense_.data() + i * n_features_; }
    const T* norms() const { return norms_.data(); }  // padded to a whole panel
    std::int64_t n_values(std::int64_t i) const { return starts_[i + 1] - starts_[i]; }
    const std::int32_t* features(std::int64_t i) const { return features_.data() + starts_[i]; }
    const T* values(std::int64_t i) const { return values_.data() + starts_[i]; }

    // Panels of dense samples: panel(p) holds the samples from p * panel_width on, padded with zeros.
    void make_panels();
    void write_panel(std::int64_t p, T* panel) const;
    bool has_panels() const { return !panels_.empty(); }
    const T* panel(std::int64_t p) const { return panels_.data() + p * panel_width * n_features_; }

private:
    void take_norms();
    void take_set_sizes();
    template <class I>
    void check(const I* features, std::int64_t n_values) const;

    std::int64_t n_samples_ = 0;
    int n_features_ = 0;
    bool sparse_ = false;
    Buffer<T> dense_, panels_;
    std::vector<std::int64_t> starts_;
    std::vector<std::int32_t> features_;
    std::vector<T> values_;
    std::vector<T> norms_;
    std::vector<std::uint8_t> set_sizes_;
};

// |a_i - b_j|^2 as a sum of squared differences in float64: exact to a few units in the last place, however close the two are.
template <class T>
double squared_difference(const Samples<T>& a, std::int64_t i, const Samples<T>& b, std::int64_t j);

}  // namespace maxmargin
