// The values of dense samples that differ from a point: CSR without the usual value of each column.
#pragma once
#include <cstdint>

#include "maxmargin/samples.hpp"

namespace maxmargin {

// ends[i] = the number of values of the samples up to i, this one included, that differ from those of the point. For each column,
// excess[k] grows by the number of values above that of the point, and falls by the number of those below.
template <class S>
void count_differences(const DenseView<S>& X, const double* point, std::int64_t* ends, std::int64_t* excess);

// signs[k] (x_ik - point_k) for these values, with their columns. `starts` are the places of the first one of each sample.
template <class S, class V, class I>
void take_differences(const DenseView<S>& X, const double* point, const double* signs, const I* starts, I* features, V* values);

}  // namespace maxmargin
