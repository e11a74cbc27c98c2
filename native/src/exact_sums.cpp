#include "maxmargin/exact_sums.hpp"

#include <vector>

#include "maxmargin/tiles.hpp"
#include "maxmargin/twofold.hpp"

namespace maxmargin {

void exact_sums(const Kernel& kernel, const Samples<double>& support, const Samples<double>& queries, const double* weights,
                int n_outputs, double* sums) {
    const std::int64_t n = queries.size(), n_support = support.size();
    std::vector<double> carries(static_cast<std::size_t>(n_outputs) * n, 0.0);
    std::fill_n(sums, carries.size(), 0.0);
    auto add_tile = [&](std::int64_t r, int height, std::int64_t c, int width, const double* tile, int stride) {
        const double* rows[rows_per_product];
        double factors[rows_per_product], part[columns_per_product];
        for (int o = 0; o < n_outputs; ++o) {
            int count = 0;  // nonzero weights: with several outputs most are zero
            for (int a = 0; a < height; ++a)
                if (const double weight = weights[o * n_support + r + a]; weight != 0.0)
                    rows[count] = tile + a * stride, factors[count++] = weight;
            std::fill_n(part, width, 0.0);
            loops<double>().accumulate(rows, count, width, factors, part);
            for (int b = 0; b < width; ++b) add_exactly(part[b], sums[o * n + c + b], carries[o * n + c + b]);
        }
    };
    visit_tiles(kernel, support, queries, 0, n, add_tile, Part::all, most_features_for_exact_differences);
    for (std::size_t k = 0; k < carries.size(); ++k) sums[k] += carries[k];
}

}  // namespace maxmargin
