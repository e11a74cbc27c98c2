// The Cholesky factorisation A = L L' of a symmetric positive definite matrix, by all members of a team, and its solver.
//
// By block columns, from the left. With A and L cut into blocks of `block` rows and columns, for k = 0, 1, ...
//
//     A_ik <- A_ik - sum_{j<k} L_ij L_kj'   for all i >= k
//     A_kk  = L_kk L_kk'                    which gives L_kk
//     L_ik  = A_ik L_kk'^{-1}               for all i > k
//
// Each line is a call of BLAS or LAPACK for every block. The first and the last line are shared by the team. The blocks, and so
// the rounding errors, do not depend on the size of the team.
#pragma once
#include "maxmargin/team.hpp"

namespace maxmargin {

// Factor the lower triangle of A (n by n, column-major) in place; false if A is not positive definite.
bool cholesky(int n, double* A, Team& team);
// Solve A X = B in place, given the factor of A; B has `columns` columns of length n.
void cholesky_solve(int n, int columns, const double* factor, double* B, Team& team);

}  // namespace maxmargin
