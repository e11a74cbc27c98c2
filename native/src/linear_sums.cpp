#include "maxmargin/linear_sums.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "maxmargin/threads.hpp"
#include "maxmargin/twofold.hpp"

namespace maxmargin {
namespace {

// The rounding error of the product x y, which was rounded to `product`.
inline double rounding_error(double x, double y, double product) {
#ifdef FP_FAST_FMA
    return std::fma(x, y, -product);
#else  // from halves of 26 bits, whose products are exact
    auto upper_half = [](double z) {
        const double shifted = 134217729.0 * z;
        return shifted - (shifted - z);
    };
    const double x1 = upper_half(x), x2 = x - x1, y1 = upper_half(y), y2 = y - y1;
    return ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2;
#endif
}

// A sum of products, each with its rounding error.
struct SumOfProducts : Twofold {
    void add_product(double x, double y) {
        const double product = x * y;
        low += rounding_error(x, y, product);
        add(product);
    }
    void add_product(double x, const Twofold& y) {
        add_product(x, y.high);
        low += x * y.low;
    }
};

// Call `visit(k, x)` for the stored values of a sample.
template <class S, class Visitor>
void for_each_value(const DenseView<S>& X, std::int64_t i, Visitor visit) {
    const S* row = X.values + i * X.row_stride;
    for (int k = 0; k < X.n_features; ++k) visit(k, static_cast<double>(row[k]));
}
template <class S, class I, class Visitor>
void for_each_value(const CsrView<S, I>& X, std::int64_t i, Visitor visit) {
    for (I v = X.starts[i]; v < X.starts[i + 1]; ++v) visit(static_cast<int>(X.features[v]), static_cast<double>(X.values[v]));
}

}  // namespace

template <class View>
void linear_sums(const View& X, const double* centre, const std::int32_t* rows, std::int64_t n_rows, const double* weights,
                 int n_outputs, const std::int32_t* at, std::int64_t n_at, double* w, double* offsets, double* sums,
                 double* sizes) {
    const int d = X.n_features;
    std::vector<SumOfProducts> product(d);
    std::vector<double> size(d);
    for (int o = 0; o < n_outputs; ++o, weights += n_rows, w += d, sums += n_at, sizes += n_at) {
        std::fill(product.begin(), product.end(), SumOfProducts());
        std::fill(size.begin(), size.end(), 0.0);
        SumOfProducts offset;
        double size_of_offset = 0.0;
        for (std::int64_t a = 0; a < n_rows; ++a) {
            const double weight = weights[a];
            if (weight == 0.0) continue;
            for_each_value(X, rows[a], [&](int k, double x) {
                product[k].add_product(weight, x);
                size[k] += std::abs(weight * x);
            });
        }
        for (int k = 0; k < d; ++k) {
            w[k] = product[k].value();
            if (!centre) continue;
            offset.add_product(centre[k], product[k]);
            size_of_offset += std::abs(centre[k]) * size[k];
        }
        const double rounded = offset.value();
        offsets[2 * o] = rounded;
        offsets[2 * o + 1] = (offset.high - rounded) + offset.low;
#pragma omp parallel for schedule(static) num_threads(threads_for(n_at* d))
        for (std::int64_t q = 0; q < n_at; ++q) {
            SumOfProducts sum;
            double terms = size_of_offset;
            for_each_value(X, at[q], [&](int k, double x) {
                sum.add_product(x, product[k]);
                terms += std::abs(x) * size[k];
            });
            sum.add(-offset.high);
            sum.add(-offset.low);
            sums[q] = sum.value();
            sizes[q] = terms;
        }
    }
}

#define MAXMARGIN_LINEAR_SUMS(View)                                                                              \
    template void linear_sums(const View&, const double*, const std::int32_t*, std::int64_t, const double*, int, \
                              const std::int32_t*, std::int64_t, double*, double*, double*, double*);
#define MAXMARGIN_LINEAR_VIEWS(S)              \
    MAXMARGIN_LINEAR_SUMS(DenseView<S>)        \
    using Csr32##S = CsrView<S, std::int32_t>; \
    using Csr64##S = CsrView<S, std::int64_t>; \
    MAXMARGIN_LINEAR_SUMS(Csr32##S)            \
    MAXMARGIN_LINEAR_SUMS(Csr64##S)
MAXMARGIN_LINEAR_VIEWS(float)
MAXMARGIN_LINEAR_VIEWS(double)

}  // namespace maxmargin
