// The dense quadratic programme of one working set of samples that have a variable in each of several rows (one for each class),
// solved by simd/crammer_singer.hpp:
//
//     min over B   sum_m 1/2 (B_m - B0_m)' K (B_m - B0_m) + G_m' (B_m - B0_m)
//     s.t.         B <= upper,   sum_m B_mi = 0  for each sample i
//
// given the gradient G at the start B0. B_m is row m. The upper bounds of a sample add up to at least zero. All numbers are
// finite, the bounds and the tolerance too: the machine has no hard margin.
#pragma once
#include "maxmargin/tile_problem.hpp"

namespace maxmargin {

template <class T>
struct JointTileProblem {
    const Tile<T>& K;
    int n_rows;
    const double* upper;  // row by row, as are beta and gradient
    double* beta;         // in: B0; out: the solution
    double* gradient;     // in: G; out: the gradient at the solution
    double tolerance;     // stop at this violation
    long max_steps;       // minimisations over one sample
    Deadline deadline;
};

}  // namespace maxmargin
