// The kernel sums from which certificates are computed.
#pragma once
#include "maxmargin/samples.hpp"

namespace maxmargin {

// out[o * queries.size() + q] = sum_s weights[o * support.size() + s] k(support_s, query_q), in float64, from the samples alone.
// Panels are made where the kernel uses them.
//
// The terms of a tile, 24 of them or 192 if the tile is a matrix product, are added plainly, four at a time; or 64 of them, in
// eight sums. The sums of the tiles are added with the rounding error of each addition carried along (Knuth's two-sum). So, with
// any number of support vectors, the rounding error of a sum is at most 12 u sum_s |weights k| (56 u for matrix products),
// u = 2^-53, besides the errors of its kernel values.
void exact_sums(const Kernel& kernel, Samples<double>& support, Samples<double>& queries, const double* weights, int n_outputs,
                double* out);

}  // namespace maxmargin
