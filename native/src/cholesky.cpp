#include "maxmargin/cholesky.hpp"

#include <algorithm>
#include <cstddef>

#include "maxmargin/blas.hpp"

namespace maxmargin {
namespace {

constexpr int block = 128;          // rows and columns of a block
constexpr int columns_at_once = 8;  // right-hand sides that one member of a team solves for

}  // namespace

bool cholesky(int n, double* A, Team& team) {
    const std::ptrdiff_t stride = n;
    for (int k = 0; k < n; k += block) {
        const int width = std::min(block, n - k), n_below = (n - k - 1) / block + 1;  // blocks from the diagonal down
        double *const row_k = A + k, *const column_k = A + stride * k;
        team.share(n_below, [&](int first, int last) {
            for (int b = first; b < last; ++b) {
                const int i = k + b * block;
                blas::subtract_product(std::min(block, n - i), width, k, A + i, n, row_k, n, column_k + i, n);
            }
        });
        if (!blas::cholesky(width, column_k + k, n)) return false;
        team.share(n_below - 1, [&](int first, int last) {
            for (int b = first + 1; b < last + 1; ++b) {
                const int i = k + b * block;
                blas::divide_by_transposed(std::min(block, n - i), width, column_k + k, n, column_k + i, n);
            }
        });
    }
    return true;
}

void cholesky_solve(int n, int columns, const double* factor, double* B, Team& team) {
    team.share((columns + columns_at_once - 1) / columns_at_once, [&](int first, int last) {
        for (int k = first * columns_at_once; k < std::min(columns, last * columns_at_once); k += columns_at_once)
            blas::cholesky_solve(n, std::min(columns_at_once, columns - k), factor, B + static_cast<std::ptrdiff_t>(n) * k);
    });
}

}  // namespace maxmargin
