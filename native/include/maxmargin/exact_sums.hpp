// The kernel sums that a certificate is made of.
#pragma once
#include "maxmargin/samples.hpp"

namespace maxmargin {

// sums[o * queries.size() + q] = sum_s weights[o * support.size() + s] k(support_s, query_q), in float64, from nothing but the
// samples. `queries` need panels if the kernel wants them.
//
// The terms of a tile are summed plainly, four at a time: 24 of them, or 192 if the tile is a matrix product. The sums of the tiles
// are added up with the rounding error of each addition carried along (Knuth's two-sum), so that however many support vectors there
// are a sum is off by at most 12 u sum_s |weights k|, or 56 of them, u = 2^-53, besides what its kernel values are off by.
void exact_sums(const Kernel& kernel, const Samples<double>& support, const Samples<double>& queries, const double* weights,
                int n_outputs, double* sums);

}  // namespace maxmargin
