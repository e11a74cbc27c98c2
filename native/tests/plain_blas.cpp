#include "plain_blas.hpp"

#include <cmath>
#include <cstddef>

#include "maxmargin/blas.hpp"

namespace tests {
namespace {

// C = alpha op(A) op(B) + beta C, column-major; op transposes or not.
template <class T>
void gemm(char* op_A, char* op_B, int* rows, int* columns, int* depth, T* alpha, T* A, int* lda, T* B, int* ldb, T* beta, T* C,
          int* ldc) {
    const auto at = [](const T* M, int lead, char op, std::ptrdiff_t row, std::ptrdiff_t column) {
        return op == 'T' ? M[row * lead + column] : M[column * lead + row];
    };
    for (std::ptrdiff_t j = 0; j < *columns; ++j)
        for (std::ptrdiff_t i = 0; i < *rows; ++i) {
            T sum = 0;
            for (std::ptrdiff_t k = 0; k < *depth; ++k) sum += at(A, *lda, *op_A, i, k) * at(B, *ldb, *op_B, k, j);
            T& entry = C[j * *ldc + i];
            entry = *alpha * sum + (*beta == T(0) ? T(0) : *beta * entry);
        }
}

// A = L L', lower triangle, column-major; info > 0 if A is not positive definite.
void potrf(char*, int* n, double* A, int* lda, int* info) {
    const std::ptrdiff_t size = *n, stride = *lda;
    *info = 0;
    for (std::ptrdiff_t j = 0; j < size; ++j) {
        for (std::ptrdiff_t i = j; i < size; ++i)
            for (std::ptrdiff_t k = 0; k < j; ++k) A[j * stride + i] -= A[k * stride + i] * A[k * stride + j];
        if (!(A[j * stride + j] > 0.0)) {
            *info = static_cast<int>(j) + 1;
            return;
        }
        const double root = std::sqrt(A[j * stride + j]);
        for (std::ptrdiff_t i = j; i < size; ++i) A[j * stride + i] /= root;
    }
}

// X L' = B with a lower triangle L, in place of B: what the library asks of trsm.
void trsm(char*, char*, char*, char*, int* rows, int* columns, double*, double* L, int* ldl, double* B, int* ldb) {
    for (std::ptrdiff_t i = 0; i < *rows; ++i)
        for (std::ptrdiff_t j = 0; j < *columns; ++j) {
            double& x = B[j * *ldb + i];
            for (std::ptrdiff_t k = 0; k < j; ++k) x -= B[k * *ldb + i] * L[k * *ldl + j];
            x /= L[j * *ldl + j];
        }
}

// A X = B with the factor above: forwards, then backwards.
void potrs(char*, int* n, int* columns, double* L, int* lda, double* B, int* ldb, int* info) {
    const std::ptrdiff_t size = *n, stride = *lda;
    *info = 0;
    for (std::ptrdiff_t c = 0; c < *columns; ++c) {
        double* x = B + c * *ldb;
        for (std::ptrdiff_t i = 0; i < size; ++i) {
            for (std::ptrdiff_t k = 0; k < i; ++k) x[i] -= L[k * stride + i] * x[k];
            x[i] /= L[i * stride + i];
        }
        for (std::ptrdiff_t i = size - 1; i >= 0; --i) {
            for (std::ptrdiff_t k = i + 1; k < size; ++k) x[i] -= L[i * stride + k] * x[k];
            x[i] /= L[i * stride + i];
        }
    }
}

}  // namespace

void use_plain_blas() {
    auto& routines = maxmargin::blas::routines;
    routines.sgemm = gemm<float>;
    routines.dgemm = gemm<double>;
    routines.dtrsm = trsm;
    routines.dpotrf = potrf;
    routines.dpotrs = potrs;
}

}  // namespace tests
