// Weights and sums of the linear kernel in twice the working precision.
//
// The kernel matrix of a linear machine is X X', so that its sums are products with w = X' beta. Where features are large (a time
// stamp) the terms of these products cancel until hardly a digit is left. So each product x y is taken as p + e, p its float64
// value and e the rounding error, each sum likewise (Dekker, Knuth), and the errors are summed along: the results are what
// arithmetic with 106 bits gives, rounded once.
//
// If the weights sum to zero, as the duals of a machine with an intercept should, (x_q - c) . w is also the sum of the kernel of
// samples less c. A sum of weights that rounding makes nonzero has the same effect here as in the model.
#pragma once
#include <cstdint>

#include "maxmargin/samples.hpp"

namespace maxmargin {

// For each output o, with weights[o * n_rows + a] of the samples rows[a]:
//     w[o * d + k]          = sum_a weights_a x_ak
//     offsets[2 o]          = c . w, and in offsets[2 o + 1] what rounding took from it        c: the centre, zero if null
//     sums[o * n_at + q]    = (x_q - c) . w, for the samples at[q]
//     sizes[o * n_at + q]   = sum_k (|x_qk| + |c_k|) sum_a |weights_a x_ak|, the size of the terms of (x_q - c) . w
// With N = n_rows + d terms and the unit roundoff u, a sum is off by at most u |sum| + 2 (N u)^2 sizes.
template <class View>
void linear_sums(const View& X, const double* centre, const std::int32_t* rows, std::int64_t n_rows, const double* weights,
                 int n_outputs, const std::int32_t* at, std::int64_t n_at, double* w, double* offsets, double* sums,
                 double* sizes);

}  // namespace maxmargin
