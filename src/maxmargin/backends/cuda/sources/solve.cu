// Second-order SMO over a dense tile, as in native/simd/pair_steps.hpp, by one thread-block cluster: each thread has E
// neighbouring variables, with their duals and gradient in registers. A step has two decisions that all threads must know: which
// variable i rises (the lowest gradient), and which j falls (the largest gain with i). For each, every block makes its best offer
// and sends it to all blocks of the cluster, through distributed shared memory; then each warp takes the best offer for itself.
// The kernel rows of i and j come from the memory of the device. Without clusters (before compute capability 9.0) there is one
// block.
//
// A step moves along the directions of the two steps before, too, as long as these ended inside the box: the slopes there are
// zero, so the minimum over all of them costs no further row and no further agreement. That saves a third of the steps.
//
// Gradients are compared in float32, relative to the middle of those that may rise and those that may fall, so that their
// differences have all their digits where it matters. Several tiles are solved side by side, each by a cluster of its own.

constexpr float CURVATURE_FLOOR = 1e-12f;  // of a pair, relative to its diagonal, as in LIBSVM
constexpr float LEAST_CURVATURE = 1e-30f;
constexpr double LEAST_DETERMINANT = 1e-3;  // of several directions, relative to the product of their curvatures
constexpr int MOST_BLOCKS = 16, MOST_WARPS = 32, OFFER_WORDS = 16;

struct Tile {
    const void* K;  // a row of `width` values for each variable
    long width;
    long first;    // the place of the first variable in the vectors of all tiles
    int n, split;  // the variables from `split` on belong to a second group
};

struct Result {
    double steps, violation, lowest_curvature, level;
};

// One block's best variable. `low` is its rating (the lowest is best); `high` is the largest of another quantity.
struct alignas(16) Offer {
    float low, high;
    int k;
    float across_two;  // like `across`, for the step before that
    double gradient, diagonal;
    double room, behind;  // how far the variable may move: on (i rises, j falls), and back
    double across;        // its kernel value with the variable that rose in the step before, less that with the one that fell
    double with_i;        // K_ij, for an offer of j
};
static_assert(sizeof(Offer) == 4 * OFFER_WORDS);

__device__ inline unsigned ordered(float x) {  // as an unsigned number, in the order of the floats
    const unsigned bits = __float_as_uint(x);
    return bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
}
__device__ inline float from_ordered(unsigned u) { return __uint_as_float(u & 0x80000000u ? u ^ 0x80000000u : ~u); }

__device__ inline unsigned warp_least(unsigned x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, x);
#else
    for (int step = 16; step; step /= 2) x = min(x, __shfl_xor_sync(~0u, x, step));
    return x;
#endif
}
__device__ inline float warp_min(float x) { return from_ordered(warp_least(ordered(x))); }
__device__ inline float warp_max(float x) { return -warp_min(-x); }

constexpr float NEVER = 3e38f;  // the rating of a variable that may not move

// --- the cluster ---------------------------------------------------------------------------------------------------------------

__device__ inline unsigned address(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

__device__ inline int block_in_cluster() {
#if __CUDA_ARCH__ >= 900
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
#else
    return 0;
#endif
}
__device__ inline int blocks_in_cluster() {
#if __CUDA_ARCH__ >= 900
    unsigned count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return static_cast<int>(count);
#else
    return 1;
#endif
}
__device__ inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// Offers of all blocks, in the shared memory of each. The sends of a round complete a barrier in the shared memory of the
// receiver. A block sends its offer of the next round only after all its warps have read those of this one, and no block goes on
// before it has the offers of all. So two boards, used in turn, are enough.
struct Board {
    Offer of_warps[MOST_WARPS];
    Offer of_blocks[MOST_BLOCKS];
    unsigned long long arrived;

    __device__ void open() {
#if __CUDA_ARCH__ >= 900
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&arrived)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    }

    __device__ void expect(int blocks) {
#if __CUDA_ARCH__ >= 900
        const unsigned bytes = blocks * sizeof(Offer);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&arrived)), "r"(bytes) : "memory");
#endif
    }

    __device__ void send(const Offer& offer, int from, int to) {
#if __CUDA_ARCH__ >= 900
        unsigned place, barrier;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(address(&of_blocks[from])), "r"(to));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(address(&arrived)), "r"(to));
        const uint4* words = reinterpret_cast<const uint4*>(&offer);
        for (int part = 0; part < OFFER_WORDS / 4; ++part)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                             place + 16 * part),
                         "r"(words[part].x), "r"(words[part].y), "r"(words[part].z), "r"(words[part].w), "r"(barrier)
                         : "memory");
#endif
    }

    __device__ void receive(unsigned parity) {
#if __CUDA_ARCH__ >= 900
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra AGAIN;\n}" ::"r"(address(&arrived)),
            "r"(parity)
            : "memory");
#endif
    }

    // The best of the offers that all threads of the cluster make; `high` is the largest of all.
    __device__ Offer agree(Offer mine, unsigned parity, int rank, int blocks) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
        const float least = warp_min(mine.low);
        mine.high = warp_max(mine.high);
        if (lane == __ffs(__ballot_sync(~0u, mine.low == least)) - 1) of_warps[warp] = mine;
        __syncthreads();
        if (blocks == 1) return best(of_warps, warps);
        if (warp == 0) {
            const Offer offer = best(of_warps, warps);
            if (lane < blocks) send(offer, rank, lane);
        }
        receive(parity);
        if (threadIdx.x == 0) expect(blocks);
        return best(of_blocks, blocks);
    }

    __device__ Offer best(const Offer* offers, int count) const {
        const int lane = threadIdx.x % 32;
        const float low = lane < count ? offers[lane].low : NEVER, high = lane < count ? offers[lane].high : -NEVER;
        const float least = warp_min(low), most = warp_max(high);
        Offer offer = offers[__ffs(__ballot_sync(~0u, low == least)) - 1];
        offer.high = most;
        return offer;
    }
};

// The direction of a step: variable i rose and j fell, or the other way round; and how far each may move now.
struct Direction {
    int i = -1, j = -1;
    double curvature = 0.0, up_i = 0.0, down_i = 0.0, up_j = 0.0, down_j = 0.0;
};

// What a step along a direction does to variable k.
__device__ inline double along(int k, int i, int j, double step) { return k == i ? step : k == j ? -step : 0.0; }

__device__ inline bool inside(double change, double up, double down) { return change < up && -change < down; }

// --- the solver ----------------------------------------------------------------------------------------------------------------

// The values of row k for this thread's variables. Rows are padded with finite values, so that whole packs may be read.
template <typename T, int E>
__device__ inline void load_row(const Tile& tile, int k, int begin, T (&values)[E]) {
    constexpr int AT_ONCE = E * sizeof(T) < 16 ? E : 16 / sizeof(T);
    struct alignas(AT_ONCE * sizeof(T)) Pack {
        T at[AT_ONCE];
    };
    const Pack* packs = reinterpret_cast<const Pack*>(static_cast<const T*>(tile.K) + k * tile.width + begin);
#pragma unroll
    for (int p = 0; p < E / AT_ONCE; ++p) {
        const Pack pack = begin < tile.n ? packs[p] : Pack{};
#pragma unroll
        for (int e = 0; e < AT_ONCE; ++e) values[p * AT_ONCE + e] = pack.at[e];
    }
}

// GROUPS: how many sums are kept. With none, a step moves one variable.
template <typename T, int GROUPS, int E, int THREADS>
__global__ void __launch_bounds__(THREADS) solve_tiles(const Tile* tiles, double* beta, double* gradient, const double* lower,
                                                       const double* upper, Result* results, double tolerance, long most_steps) {
    __shared__ Board boards[2];
    const int rank = block_in_cluster(), blocks = blocks_in_cluster(), number = blockIdx.x / blocks;
    const Tile tile = tiles[number];
    const T* K = static_cast<const T*>(tile.K);
    const int begin = (rank * THREADS + static_cast<int>(threadIdx.x)) * E;
    if (threadIdx.x == 0) boards[0].open(), boards[1].open();
    __syncthreads();  // thread 0 needs no barrier here; without one racecheck warns of its two accesses
    if (threadIdx.x == 0) boards[0].expect(blocks), boards[1].expect(blocks);

    double b[E], g[E], l[E], u[E];
    T diagonal[E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
        const int k = begin + e;
        const bool inside = k < tile.n;
        const long at = tile.first + k;
        b[e] = inside ? beta[at] : 0.0, g[e] = inside ? gradient[at] : 0.0;
        l[e] = inside ? lower[at] : 0.0, u[e] = inside ? upper[at] : 0.0;  // outside: a box without room
        diagonal[e] = inside ? K[k * tile.width + k] : T(1);
    }
    wait_for_cluster();

    const double old_steps = results[number].steps;
    double middle[GROUPS == 2 ? 2 : 1] = {}, violation = 0.0, lowest_curvature = results[number].lowest_curvature;
    bool confirmed = false;
    // The two directions before this one, of which `known` have slope zero, and their rows: that of i less that of j.
    Direction one, two;
    T D_one[E] = {}, D_two[E] = {};
    double one_two = 0.0;
    int known = 0;
    unsigned round = 0;
    long step = 0;
    for (;; ++step) {
        if constexpr (GROUPS == 0) {
            Offer mine{0.0f, 0.0f};
#pragma unroll
            for (int e = 0; e < E; ++e) {
                const bool may_move = g[e] < 0.0 ? b[e] < u[e] : b[e] > l[e];
                const float slope = may_move ? fabsf(static_cast<float>(g[e])) : 0.0f;
                const float gain = slope * (slope / fmaxf(static_cast<float>(diagonal[e]), LEAST_CURVATURE));
                mine.high = fmaxf(mine.high, slope);
                if (-gain < mine.low) {
                    const double curvature = fmax(static_cast<double>(diagonal[e]), static_cast<double>(LEAST_CURVATURE));
                    const double moved = fmin(fmax(b[e] - g[e] / curvature, l[e]), u[e]);
                    mine.low = -gain, mine.k = begin + e, mine.diagonal = diagonal[e];
                    mine.gradient = moved - b[e], mine.room = moved;  // the change, and the new dual
                }
            }
            const Offer best = boards[round & 1].agree(mine, round / 2 & 1, rank, blocks);
            ++round;
            violation = best.high;
            if (violation <= tolerance || step >= most_steps || !(best.low < 0.0f) || best.gradient == 0.0) break;
            if (best.diagonal < 0.0) lowest_curvature = -1.0;
            T row[E];
            load_row(tile, best.k, begin, row);
#pragma unroll
            for (int e = 0; e < E; ++e) {
                g[e] += best.gradient * static_cast<double>(row[e]);
                if (begin + e == best.k) b[e] = best.room;
            }
        } else {
            // i: the lowest gradient among the variables that may rise, in the group with the largest violation
            Offer i{};
            double worst = -1.0;
            int group = 0;
#pragma unroll
            for (int side = 0; side < GROUPS; ++side) {
                Offer mine{NEVER, -NEVER};
#pragma unroll
                for (int e = 0; e < E; ++e) {
                    if (GROUPS == 2 && (begin + e >= tile.split) != (side == 1)) continue;
                    const float above = static_cast<float>(g[e] - middle[side]);
                    if (b[e] > l[e]) mine.high = fmaxf(mine.high, above);
                    if (b[e] < u[e] && above < mine.low) {
                        mine.low = above, mine.k = begin + e, mine.diagonal = diagonal[e];
                        mine.gradient = g[e], mine.room = u[e] - b[e], mine.behind = b[e] - l[e], mine.across = D_one[e];
                        mine.across_two = static_cast<float>(D_two[e]);
                    }
                }
                const Offer lowest = boards[round & 1].agree(mine, round / 2 & 1, rank, blocks);
                ++round;
                const bool rises = lowest.low<NEVER, falls = lowest.high> - NEVER;
                const double excess = rises && falls ? static_cast<double>(lowest.high) - lowest.low : 0.0;
                if (excess > worst) worst = excess, i = lowest, group = side;
                if (rises || falls)
                    middle[side] +=
                        0.5 * (static_cast<double>(rises ? lowest.low : lowest.high) + (falls ? lowest.high : lowest.low));
            }
            violation = worst;
            if (step >= most_steps) break;
            if (violation <= tolerance) {  // by gradients relative to a middle that may have been far off: look again
                if (confirmed) break;
                confirmed = true, --step;
                continue;
            }
            confirmed = false;

            // j: the largest gain of a pair with i
            T K_i[E], K_j[E];
            load_row(tile, i.k, begin, K_i);
            Offer mine{};
#pragma unroll
            for (int e = 0; e < E; ++e) {
                if (GROUPS == 2 && (begin + e >= tile.split) != (group == 1)) continue;
                const float excess = static_cast<float>(g[e] - i.gradient);
                const T diagonals = static_cast<T>(i.diagonal) + diagonal[e];
                const float met = static_cast<float>(diagonals - T(2) * K_i[e]);
                const float floor = CURVATURE_FLOOR * fmaxf(static_cast<float>(diagonals), 0.0f) + LEAST_CURVATURE;
                const float gain = excess * __fdividef(excess, fmaxf(met, floor));
                if (b[e] > l[e] && excess > 0.0f && -gain < mine.low) {
                    mine.low = -gain, mine.k = begin + e, mine.diagonal = diagonal[e];
                    mine.gradient = g[e], mine.room = b[e] - l[e], mine.behind = u[e] - b[e];
                    mine.across = D_one[e], mine.across_two = static_cast<float>(D_two[e]),
                    mine.with_i = static_cast<double>(K_i[e]);
                }
            }
            const Offer j = boards[round & 1].agree(mine, round / 2 & 1, rank, blocks);
            ++round;
            if (!(j.low < 0.0f)) break;
            load_row(tile, j.k, begin, K_j);
            const double diagonals = i.diagonal + j.diagonal, met = diagonals - 2.0 * j.with_i;
            const double floor = static_cast<double>(CURVATURE_FLOOR) * fmax(diagonals, 0.0) + LEAST_CURVATURE;
            if (met < 0.0) lowest_curvature = fmin(lowest_curvature, met / fmax(diagonals, floor));
            const double curvature = fmax(met, floor), slope = j.gradient - i.gradient;
            double t = fmin(slope / curvature, fmin(i.room, j.room)), t_one = 0.0, t_two = 0.0;
            const auto change = [&](int k) {
                return along(k, i.k, j.k, t) + along(k, one.i, one.j, t_one) + along(k, two.i, two.j, t_two);
            };
            const auto stays_inside = [&] {
                return inside(change(i.k), i.room, i.behind) && inside(change(j.k), j.behind, j.room) &&
                       inside(change(one.i), one.up_i, one.down_i) && inside(change(one.j), one.up_j, one.down_j) &&
                       (known < 2 ||
                        (inside(change(two.i), two.up_i, two.down_i) && inside(change(two.j), two.up_j, two.down_j)));
            };
            const double plain = t, with_one = i.across - j.across, with_two = static_cast<double>(i.across_two) - j.across_two;
            if (met <= floor) known = 0;
            int used = plain < i.room && plain < j.room && met > floor ? 1 : 0;
            if (known == 2) {  // the minimum over three directions: the first column of the inverse of their matrix
                const double minor = one.curvature * two.curvature - one_two * one_two;
                const double by_one = one_two * with_two - with_one * two.curvature;
                const double by_two = with_one * one_two - one.curvature * with_two;
                const double determinant = curvature * minor + with_one * by_one + with_two * by_two;
                if (determinant > LEAST_DETERMINANT * curvature * one.curvature * two.curvature) {
                    const double scale = slope / determinant;
                    t = scale * minor, t_one = scale * by_one, t_two = scale * by_two;
                    if (stays_inside()) used = 3;
                }
            }
            if (known > 0 && used < 3) {  // over two
                const double determinant = curvature * one.curvature - with_one * with_one;
                t_two = 0.0;
                if (determinant > LEAST_DETERMINANT * curvature * one.curvature) {
                    const double scale = slope / determinant;
                    t = scale * one.curvature, t_one = -scale * with_one;
                    if (stays_inside()) used = 2;
                }
            }
            if (used < 2) t = plain, t_one = t_two = 0.0;
#pragma unroll
            for (int e = 0; e < E; ++e) {
                const T D = K_i[e] - K_j[e];
                g[e] +=
                    t * static_cast<double>(D) + t_one * static_cast<double>(D_one[e]) + t_two * static_cast<double>(D_two[e]);
                D_two[e] = D_one[e], D_one[e] = D;
            }
            const auto is_mine = [&](int k) { return static_cast<unsigned>(k - begin) < E; };
            if (is_mine(i.k) || is_mine(j.k) || is_mine(one.i) || is_mine(one.j) || is_mine(two.i) || is_mine(two.j)) {
#pragma unroll
                for (int e = 0; e < E; ++e) {
                    const int k = begin + e;
                    b[e] = fmin(fmax(b[e] + change(k), l[e]), u[e]);
                    if (used < 2 && k == i.k && t == i.room) b[e] = u[e];
                    if (used < 2 && k == j.k && t == j.room) b[e] = l[e];
                }
            }
            const double of_i = change(i.k), of_j = change(j.k), of_one_i = change(one.i), of_one_j = change(one.j);
            two = one;
            two.up_i -= of_one_i, two.down_i += of_one_i, two.up_j -= of_one_j, two.down_j += of_one_j;
            one = {i.k, j.k, curvature, i.room - of_i, i.behind + of_i, j.behind - of_j, j.room + of_j};
            one_two = with_one, known = min(used, 2);
        }
    }
#pragma unroll
    for (int e = 0; e < E; ++e)
        if (begin + e < tile.n) beta[tile.first + begin + e] = b[e], gradient[tile.first + begin + e] = g[e];
    if (rank == 0 && threadIdx.x == 0)
        results[number] = {old_steps + step, violation, lowest_curvature, GROUPS ? middle[0] : 0.0};
    wait_for_cluster();  // no block leaves while another may still write to its shared memory
}
