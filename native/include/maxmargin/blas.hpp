// The BLAS and LAPACK routines that SciPy carries, handed over once as function pointers.
#pragma once

namespace maxmargin::blas {

using Gemm32 = void(char*, char*, int*, int*, int*, float*, float*, int*, float*, int*, float*, float*, int*);
using Gemm64 = void(char*, char*, int*, int*, int*, double*, double*, int*, double*, int*, double*, double*, int*);
using Trsm64 = void(char*, char*, char*, char*, int*, int*, double*, double*, int*, double*, int*);
using Potrf64 = void(char*, int*, double*, int*, int*);
using Potrs64 = void(char*, int*, int*, double*, int*, double*, int*, int*);

struct Routines {
    Gemm32* sgemm = nullptr;
    Gemm64* dgemm = nullptr;
    Trsm64* dtrsm = nullptr;
    Potrf64* dpotrf = nullptr;
    Potrs64* dpotrs = nullptr;
};
inline Routines routines;

// C (rows x columns, row-major, leading dimension ldc) = A B^T with A: rows x depth, B: columns x depth.
inline void multiply_transposed(int rows, int columns, int depth, const float* A, int lda, const float* B, int ldb, float* C,
                                int ldc) {
    char t = 'T', n = 'N';
    float one = 1.0f, zero = 0.0f;
    routines.sgemm(&t, &n, &columns, &rows, &depth, &one, const_cast<float*>(B), &ldb, const_cast<float*>(A), &lda, &zero, C,
                   &ldc);
}
inline void multiply_transposed(int rows, int columns, int depth, const double* A, int lda, const double* B, int ldb, double* C,
                                int ldc) {
    char t = 'T', n = 'N';
    double one = 1.0, zero = 0.0;
    routines.dgemm(&t, &n, &columns, &rows, &depth, &one, const_cast<double*>(B), &ldb, const_cast<double*>(A), &lda, &zero, C,
                   &ldc);
}

// C (rows x columns) -= A B^T with A: rows x depth, B: columns x depth; all column-major.
inline void subtract_product(int rows, int columns, int depth, const double* A, int lda, const double* B, int ldb, double* C,
                             int ldc) {
    if (depth == 0) return;
    char n = 'N', t = 'T';
    double minus = -1.0, one = 1.0;
    routines.dgemm(&n, &t, &rows, &columns, &depth, &minus, const_cast<double*>(A), &lda, const_cast<double*>(B), &ldb, &one, C,
                   &ldc);
}
// B (rows x columns) <- B L'^{-1} with the lower triangle L; both column-major.
inline void divide_by_transposed(int rows, int columns, const double* L, int ldl, double* B, int ldb) {
    char right = 'R', lower = 'L', transposed = 'T', no = 'N';
    double one = 1.0;
    routines.dtrsm(&right, &lower, &transposed, &no, &rows, &columns, &one, const_cast<double*>(L), &ldl, B, &ldb);
}
// Factor the symmetric matrix A = L L' (its lower triangle, column-major) in place; false if it is not positive definite.
inline bool cholesky(int n, double* A, int lda) {
    char lower = 'L';
    int info = 0;
    routines.dpotrf(&lower, &n, A, &lda, &info);
    return info == 0;
}
// Solve A X = B in place with a factor from `cholesky`; B holds `columns` right-hand sides of length n.
inline void cholesky_solve(int n, int columns, const double* factor, double* B) {
    char lower = 'L';
    int info = 0;
    routines.dpotrs(&lower, &n, &columns, const_cast<double*>(factor), &n, B, &n, &info);
}

}  // namespace maxmargin::blas
