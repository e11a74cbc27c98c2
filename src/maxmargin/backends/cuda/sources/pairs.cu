// Kernel values of all pairs of two sets of samples, by tiles in registers: weighted sums of them, or the values themselves.
//
// A set of samples is a matrix with a row for each feature and a column for each sample, so that the loads of a tile are
// contiguous. Columns are padded to whole tiles and features to whole slices, with zeros. A block of THREADS threads computes a
// tile of SIDE x SIDE pairs: a thread has 4 x 4 (double) or 8 x 8 (float) of them, in quads of neighbours, and goes through the
// features slice by slice; the next slice is loaded from memory while the present one is used.

enum Pairing { DOT, SQUARED, ABSOLUTE };  // a . b; the sum of (a - b)^2; the sum of |a - b|
enum Function { LINEAR, POLY, SIGMOID, RBF, EXPONENTIAL, MATERN32, LAPLACIAN };

constexpr int THREADS = 256, SLICE = 8;

template <typename T>
struct Shape;
template <>
struct Shape<float> {
    static constexpr int QUADS = 2, SIDE = 128;
    using Load = float4;
};
template <>
struct Shape<double> {
    static constexpr int QUADS = 1, SIDE = 64;
    using Load = double2;
};

__device__ inline float power(float base, float degree) { return powf(base, degree); }
__device__ inline double power(double base, double degree) { return pow(base, degree); }
__device__ inline float exponential(float t) { return __expf(t); }
__device__ inline double exponential(double t) { return exp(t); }
__device__ inline float tangent(float t) { return tanhf(t); }
__device__ inline double tangent(double t) { return tanh(t); }
__device__ inline float root(float s) { return sqrtf(s); }
__device__ inline double root(double s) { return sqrt(s); }

// k(a, b) from the pairing of a and b. A squared distance from dot products needs the squared norms of both, too.
template <typename T, Pairing PAIRING, Function FUNCTION>
struct Value {
    T gamma, coef0, degree;
    int whole;  // the degree, if it is a small whole number; else -1

    __device__ Value(double gamma, double coef0, double degree) : gamma(gamma), coef0(coef0), degree(degree) {
        whole = degree >= 0 && degree <= 16 && degree == floor(degree) ? static_cast<int>(degree) : -1;
    }

    __device__ T operator()(T pairing, T norm_a, T norm_b) const {
        if constexpr (FUNCTION == LINEAR) return pairing;
        if constexpr (FUNCTION == SIGMOID) return tangent(gamma * pairing + coef0);
        if constexpr (FUNCTION == LAPLACIAN) return exponential(-gamma * pairing);
        if constexpr (FUNCTION == POLY) {
            const T base = gamma * pairing + coef0;
            if (whole < 0) return power(degree == floor(degree) ? base : max(base, T(0)), degree);
            T value = 1;
            for (int k = 0; k < whole; ++k) value *= base;
            return value;
        }
        const T square = PAIRING == SQUARED ? pairing : max(norm_a + norm_b - 2 * pairing, T(0));
        if constexpr (FUNCTION == RBF) return exponential(-gamma * square);
        if constexpr (FUNCTION == EXPONENTIAL) return exponential(-gamma * root(square));
        if constexpr (FUNCTION == MATERN32) {
            const T t = gamma * root(3 * square);
            return (1 + t) * exponential(-t);
        }
    }
};

template <typename T>
struct alignas(16) Quad {
    T at[4];
};

// The samples of one side of a tile that belong to this thread: quads of neighbours.
template <typename T>
struct Places {
    static constexpr int QUADS = Shape<T>::QUADS;
    int first, stride;
    __device__ int operator[](int quad) const { return first + quad * stride; }
};

// A warp has 4 x 8 threads, a block 4 x 2 warps.
template <typename T>
__device__ inline Places<T> rows_of_thread() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp / 2) * 16 * Shape<T>::QUADS + (lane / 8) * 4, 16};
}
template <typename T>
__device__ inline Places<T> columns_of_thread() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp % 2) * 32 * Shape<T>::QUADS + (lane % 8) * 4, 32};
}

template <Pairing PAIRING, typename T>
__device__ inline T add_pair(T sum, T a, T b) {
    if constexpr (PAIRING == DOT) return sum + a * b;
    const T difference = a - b;
    if constexpr (PAIRING == SQUARED) return sum + difference * difference;
    return sum + (difference < 0 ? -difference : difference);
}

template <typename T>
struct Slices {
    T a[2][SLICE][Shape<T>::SIDE], b[2][SLICE][Shape<T>::SIDE];
};

// The pairings of the tile at columns `at_a` of A and `at_b` of B, which have `features` rows.
template <typename T, Pairing PAIRING, int N>
__device__ inline void pair_tile(Slices<T>& shared, const T* A, long width_a, int at_a, const T* B, long width_b, int at_b,
                                 int features, T (&pairs)[N][N]) {
    using Load = typename Shape<T>::Load;
    constexpr int SIDE = Shape<T>::SIDE, QUADS = Shape<T>::QUADS, AT_ONCE = sizeof(Load) / sizeof(T);
    static_assert(THREADS * AT_ONCE == SLICE * SIDE && N == 4 * QUADS);
    const int feature = threadIdx.x / (SIDE / AT_ONCE), column = threadIdx.x % (SIDE / AT_ONCE) * AT_ONCE;
    const T* from_a = A + feature * width_a + at_a + column;
    const T* from_b = B + feature * width_b + at_b + column;
    const Places<T> rows = rows_of_thread<T>(), columns = columns_of_thread<T>();
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < N; ++j) pairs[i][j] = 0;
    Load next_a = *reinterpret_cast<const Load*>(from_a), next_b = *reinterpret_cast<const Load*>(from_b);
    __syncthreads();  // the slices of the tile before are no longer read
    for (int done = 0, buffer = 0; done < features; done += SLICE, buffer ^= 1) {
        *reinterpret_cast<Load*>(&shared.a[buffer][feature][column]) = next_a;
        *reinterpret_cast<Load*>(&shared.b[buffer][feature][column]) = next_b;
        __syncthreads();
        if (done + SLICE < features) {
            from_a += SLICE * width_a, from_b += SLICE * width_b;
            next_a = *reinterpret_cast<const Load*>(from_a), next_b = *reinterpret_cast<const Load*>(from_b);
        }
#pragma unroll
        for (int k = 0; k < SLICE; ++k) {
            Quad<T> a[QUADS], b[QUADS];
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                a[q] = *reinterpret_cast<const Quad<T>*>(&shared.a[buffer][k][rows[q]]);
                b[q] = *reinterpret_cast<const Quad<T>*>(&shared.b[buffer][k][columns[q]]);
            }
#pragma unroll
            for (int i = 0; i < N; ++i)
#pragma unroll
                for (int j = 0; j < N; ++j) pairs[i][j] = add_pair<PAIRING>(pairs[i][j], a[i / 4].at[i % 4], b[j / 4].at[j % 4]);
        }
    }
}

// out[chunk][m][q] = sum of weights[m][s] k(q, s) over a chunk of the support vectors s (columns of S), for each query q (column
// of Q) and for OUTPUTS rows m of weights. Each chunk is `tiles` tiles long; the host adds the chunks up, always in the same
// order. Sums of a few products in T are added up in float64. For one output these sums lie in shared memory, since two blocks
// on a multiprocessor, which hide each other's waits, have no registers for them.
template <typename T, Pairing PAIRING, Function FUNCTION, int OUTPUTS>
__global__ void __launch_bounds__(THREADS, OUTPUTS == 1 ? 2 : 1)
    kernel_sums(const T* Q, const T* norms_q, long width_q, const T* S, const T* norms_s, long width_s, int features,
                const T* weights, int tiles, double* out, double gamma, double coef0, double degree) {
    constexpr int SIDE = Shape<T>::SIDE, QUADS = Shape<T>::QUADS, N = 4 * QUADS;
    constexpr bool SHARED = OUTPUTS == 1;
    __shared__ union {
        Slices<T> slices;
        double halves[OUTPUTS][SIDE];
    } shared;
    __shared__ double in_shared[SHARED ? N : 1][SHARED ? THREADS : 1];
    double in_registers[OUTPUTS][N];
    const auto sum = [&](int m, int i) -> double& {
        if constexpr (SHARED) return in_shared[i][threadIdx.x];
        return in_registers[m][i];
    };
    const Value<T, PAIRING, FUNCTION> value(gamma, coef0, degree);
    const Places<T> rows = rows_of_thread<T>(), columns = columns_of_thread<T>();
    const int at_q = blockIdx.x * SIDE, first = blockIdx.y * tiles * SIDE;
    const int last = min(static_cast<long>(first) + static_cast<long>(tiles) * SIDE, width_s);
#pragma unroll
    for (int m = 0; m < OUTPUTS; ++m)
#pragma unroll
        for (int i = 0; i < N; ++i) sum(m, i) = 0.0;
    for (int at_s = first; at_s < last; at_s += SIDE) {
        T pairs[N][N];
        pair_tile<T, PAIRING>(shared.slices, Q, width_q, at_q, S, width_s, at_s, features, pairs);
        Quad<T> norm_q[QUADS], norm_s[QUADS];
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            norm_q[q] = *reinterpret_cast<const Quad<T>*>(norms_q + at_q + rows[q]);
            norm_s[q] = *reinterpret_cast<const Quad<T>*>(norms_s + at_s + columns[q]);
        }
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (int j = 0; j < N; ++j) pairs[i][j] = value(pairs[i][j], norm_q[i / 4].at[i % 4], norm_s[j / 4].at[j % 4]);
#pragma unroll
        for (int m = 0; m < OUTPUTS; ++m) {
            Quad<T> weight[QUADS];
#pragma unroll
            for (int q = 0; q < QUADS; ++q)
                weight[q] = *reinterpret_cast<const Quad<T>*>(weights + m * width_s + at_s + columns[q]);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                T part = 0;
#pragma unroll
                for (int j = 0; j < N; ++j) part += weight[j / 4].at[j % 4] * pairs[i][j];
                sum(m, i) += part;
            }
        }
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < OUTPUTS; ++m)
#pragma unroll
        for (int i = 0; i < N; ++i) {
            double whole = sum(m, i);
            for (int step = 1; step < 8; step *= 2) whole += __shfl_xor_sync(~0u, whole, step);
            sum(m, i) = whole;
            if (warp % 2 == 1 && lane % 8 == 0) shared.halves[m][rows[i / 4] + i % 4] = whole;
        }
    __syncthreads();
    if (warp % 2 == 1 || lane % 8) return;
#pragma unroll
    for (int m = 0; m < OUTPUTS; ++m)
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int row = rows[i / 4] + i % 4;
            out[(static_cast<long>(blockIdx.y) * OUTPUTS + m) * width_q + at_q + row] = sum(m, i) + shared.halves[m][row];
        }
}

// K[a][b] = k(a, b) for the columns a of A and b of B; K has `rows_a` rows of width_b values. If both sets are the same, the
// tiles below the diagonal are mirrored from those above.
template <typename T, Pairing PAIRING, Function FUNCTION>
__global__ void __launch_bounds__(THREADS)
    kernel_values(const T* A, const T* norms_a, long width_a, const T* B, const T* norms_b, long width_b, int features, T* K,
                  int rows_a, double gamma, double coef0, double degree) {
    constexpr int SIDE = Shape<T>::SIDE, QUADS = Shape<T>::QUADS, N = 4 * QUADS;
    __shared__ Slices<T> slices;
    const Value<T, PAIRING, FUNCTION> value(gamma, coef0, degree);
    const Places<T> rows = rows_of_thread<T>(), columns = columns_of_thread<T>();
    const int at_a = blockIdx.y * SIDE, at_b = blockIdx.x * SIDE;
    const bool symmetric = A == B;
    if (symmetric && at_a > at_b) return;
    T pairs[N][N];
    pair_tile<T, PAIRING>(slices, A, width_a, at_a, B, width_b, at_b, features, pairs);
    Quad<T> norm_b[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; ++q) norm_b[q] = *reinterpret_cast<const Quad<T>*>(norms_b + at_b + columns[q]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const int a = at_a + rows[i / 4] + i % 4;
        const T norm_a = norms_a[a];
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            Quad<T> values;
#pragma unroll
            for (int j = 0; j < 4; ++j) values.at[j] = pairs[i][4 * q + j] = value(pairs[i][4 * q + j], norm_a, norm_b[q].at[j]);
            if (a < rows_a) *reinterpret_cast<Quad<T>*>(K + a * width_b + at_b + columns[q]) = values;
        }
    }
    if (!symmetric || at_a == at_b) return;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const int b = at_b + columns[j / 4] + j % 4;
        if (b >= rows_a) continue;
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            Quad<T> values;
#pragma unroll
            for (int i = 0; i < 4; ++i) values.at[i] = pairs[4 * q + i][j];
            *reinterpret_cast<Quad<T>*>(K + b * width_b + at_a + rows[q]) = values;
        }
    }
}
