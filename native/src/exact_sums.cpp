#include "maxmargin/exact_sums.hpp"

#include <algorithm>
#include <vector>

#include "maxmargin/tiles.hpp"
#include "maxmargin/twofold.hpp"

namespace maxmargin {

namespace {

using Sums = std::vector<Twofold>;

// Support vectors as rows, queries as columns.
void sums_over_rows(const Kernel& kernel, const Samples<double>& support, const Samples<double>& queries, const double* weights,
                    int n_outputs, Sums& sums) {
    const std::int64_t n = queries.size(), n_support = support.size();
    const auto add_tile = [&](std::int64_t r, int height, std::int64_t c, int width, const double* tile, int stride) {
        const double* rows[rows_per_product];
        double factors[rows_per_product], part[columns_per_product];
        for (int o = 0; o < n_outputs; ++o) {
            int count = 0;  // nonzero weights: with several outputs most are zero
            for (int a = 0; a < height; ++a)
                if (const double weight = weights[o * n_support + r + a]; weight != 0.0)
                    rows[count] = tile + a * stride, factors[count++] = weight;
            std::fill_n(part, width, 0.0);
            loops<double>().accumulate(rows, count, width, factors, part);
            for (int b = 0; b < width; ++b) sums[o * n + c + b].add(part[b]);
        }
    };
    visit_tiles(kernel, support, queries, 0, n, add_tile, Part::all, most_features_for_exact_differences);
}

// Queries as rows, support vectors as columns: few queries keep few threads busy as columns. Each block of columns has sums of
// its own, which are added in the end.
void sums_over_columns(const Kernel& kernel, const Samples<double>& support, const Samples<double>& queries,
                       const double* weights, Sums& sums) {
    const std::int64_t n = queries.size(), n_blocks = (support.size() + panel_width - 1) / panel_width;
    std::vector<double> of_blocks(n_blocks * n);
    const auto add_tile = [&](std::int64_t r, int height, std::int64_t c, int width, const double* tile, int stride) {
        for (int first = 0; first < width; first += panel_width)
            loops<double>().weigh_rows(tile + first, height, std::min(panel_width, width - first), stride, weights + c + first,
                                       of_blocks.data() + (c + first) / panel_width * n + r);
    };
    visit_tiles(kernel, queries, support, 0, support.size(), add_tile, Part::all, most_features_for_exact_differences);
    for (std::int64_t block = 0; block < n_blocks; ++block)
        for (std::int64_t q = 0; q < n; ++q) sums[q].add(of_blocks[block * n + q]);
}

constexpr std::int64_t most_for_columns = 1 << 22;  // sums of blocks

}  // namespace

void exact_sums(const Kernel& kernel, Samples<double>& support, Samples<double>& queries, const double* weights, int n_outputs,
                double* out) {
    const std::int64_t n = queries.size();
    Sums sums(static_cast<std::size_t>(n_outputs) * n);
    const bool over_columns = n_outputs == 1 && n <= support.size() && n * support.size() <= most_for_columns * panel_width;
    if (wants_panels(kernel, queries.n_features())) (over_columns ? support : queries).make_panels();
    if (over_columns)
        sums_over_columns(kernel, support, queries, weights, sums);
    else
        sums_over_rows(kernel, support, queries, weights, n_outputs, sums);
    std::transform(sums.begin(), sums.end(), out, [](const Twofold& sum) { return sum.value(); });
}

}  // namespace maxmargin
