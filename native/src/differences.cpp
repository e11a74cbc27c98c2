#include "maxmargin/differences.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "maxmargin/threads.hpp"

namespace maxmargin {

template <class S>
void count_differences(const DenseView<S>& X, const double* point, std::int64_t* ends, std::int64_t* excess) {
    const int d = X.n_features;
    constexpr std::int64_t most_rows = 1 << 20;  // whose excess fits into 32 bits, which are faster
    const std::int64_t n_blocks = 8 * n_threads(), rows = std::min(most_rows, X.n_samples / n_blocks + 1);
    Failure failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_for(X.n_samples* d))
    for (std::int64_t first = 0; first < X.n_samples; first += rows)
        failure.guard([&] {
            std::vector<std::int32_t> own(d, 0);
            for (std::int64_t i = first; i < std::min(first + rows, X.n_samples); ++i) {
                const S* x = X.values + i * X.row_stride;
                std::int32_t count = 0;
                for (int k = 0; k < d; ++k) {
                    const std::int32_t above = x[k] > point[k], below = x[k] < point[k];
                    count += above + below;
                    own[k] += above - below;
                }
                ends[i] = count;
            }
#pragma omp critical
            for (int k = 0; k < d; ++k) excess[k] += own[k];
        });
    failure.rethrow();
    std::partial_sum(ends, ends + X.n_samples, ends);
}

template <class S, class V, class I>
void take_differences(const DenseView<S>& X, const double* point, const double* signs, const I* starts, I* features, V* values) {
#pragma omp parallel for schedule(dynamic, 64) num_threads(threads_for(X.n_samples* X.n_features))
    for (std::int64_t i = 0; i < X.n_samples; ++i) {
        const S* x = X.values + i * X.row_stride;
        I at = starts[i];
        for (int k = 0; k < X.n_features; ++k) {
            if (x[k] == point[k]) continue;
            features[at] = k;
            values[at++] = static_cast<V>(signs[k] * (x[k] - point[k]));
        }
    }
}

#define MAXMARGIN_DIFFERENCES(S, V)                                                                                            \
    template void take_differences(const DenseView<S>&, const double*, const double*, const std::int32_t*, std::int32_t*, V*); \
    template void take_differences(const DenseView<S>&, const double*, const double*, const std::int64_t*, std::int64_t*, V*);
MAXMARGIN_DIFFERENCES(float, float)
MAXMARGIN_DIFFERENCES(float, double)
MAXMARGIN_DIFFERENCES(double, double)
template void count_differences(const DenseView<float>&, const double*, std::int64_t*, std::int64_t*);
template void count_differences(const DenseView<double>&, const double*, std::int64_t*, std::int64_t*);

}  // namespace maxmargin
