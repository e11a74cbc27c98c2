// The values of dense samples that differ from a point.
#include <vector>

#include "check.hpp"
#include "data.hpp"
#include "maxmargin/differences.hpp"

namespace tests {
namespace {

template <class S, class V, class I>
void test_differences(int n, int d) {
    const int stride = d + 3;
    const Data<S> data(n, stride, 31);
    std::vector<double> point(d, 0.0);
    for (int k = 1; k < d; k += 2) point[k] = data.row(0)[k];
    const DenseView<S> X{data.values.data(), n, stride, d};
    std::vector<std::int64_t> ends(n, -1), excess(d, 5);
    count_differences(X, point.data(), ends.data(), excess.data());

    std::vector<double> signs(d);
    for (int k = 0; k < d; ++k) signs[k] = k % 3 ? 1.0 : -1.0;
    std::vector<I> starts{0}, columns;
    std::vector<V> values;
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < d; ++k)
            if (data.row(i)[k] != point[k]) {
                columns.push_back(k);
                values.push_back(static_cast<V>(signs[k] * (data.row(i)[k] - point[k])));
            }
        starts.push_back(static_cast<I>(columns.size()));
    }
    CHECK(std::equal(ends.begin(), ends.end(), starts.begin() + 1));
    for (int k = 0; k < d; ++k) {
        std::int64_t expected = 5;
        for (int i = 0; i < n; ++i) expected += (data.row(i)[k] > point[k]) - (data.row(i)[k] < point[k]);
        CHECK(excess[k] == expected);
    }
    std::vector<I> found_columns(columns.size());
    std::vector<V> found(columns.size());
    take_differences(X, point.data(), signs.data(), starts.data(), found_columns.data(), found.data());
    CHECK(found_columns == columns && found == values);
}

}  // namespace

void test_differences() {
    for (const auto& [n, d] : {std::pair{1, 1}, {3, 40}, {9000, 37}}) {
        const std::string words = std::to_string(n) + " samples of " + std::to_string(d);
        run("differences, float, " + words, [&] { test_differences<float, float, std::int32_t>(n, d); });
        run("differences, float to double, " + words, [&] { test_differences<float, double, std::int64_t>(n, d); });
        run("differences, double, " + words, [&] { test_differences<double, double, std::int32_t>(n, d); });
    }
}

}  // namespace tests
