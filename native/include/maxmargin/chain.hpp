// A chain of problems over one kernel matrix in memory that differ in their boxes (in C), each started from the solution of the
// one before and certified: one fold of a grid search, in one call.
//
// Steps are made with the entries rounded to float32, if there is such a matrix, as long as the duals are so small that rounding
// matters little; then, if the certificate, in float64, is not satisfied, with the entries themselves.
#pragma once
#include "maxmargin/deadline.hpp"
#include "maxmargin/proofs.hpp"

namespace maxmargin {

struct Chain {
    const double* matrix;  // symmetric, with rows `stride` entries apart
    const float* rounded;  // the same matrix in float32; or null
    std::int64_t stride;
    const std::int32_t* members;  // the rows of the matrix that the variables stand for; null: all of them, in chunks
    int size;
    const double* linear;
    bool coupled;
    double tol, gap_tol;       // gap_tol may be infinite
    double largest, rounding;  // of the entries of the matrix: their size, and their relative error
};

// A problem of a chain: its box, and what is found.
struct Link {
    const double *lower, *upper;
    double *beta, *gradient, *terms;  // written
    Proof proof;
    long steps = 0;
};

// Solve the problems in their order, until the certificate of one does not reach the tolerances, or the deadline has passed;
// return how many were solved.
int solve_chain(const Chain& chain, std::vector<Link>& links, const Deadline& deadline);

}  // namespace maxmargin
