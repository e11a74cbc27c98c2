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
constexpr float LEAST_DETERMINANT = 1e-3f;  // of several directions, relative to the product of their curvatures
constexpr int MOST_BLOCKS = 16, MOST_WARPS = 32;

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
template <typename T>
struct alignas(16) Offer {
    float low, high;
    int k;
    float excess;                  // of the gradient over that of i, for an offer of j
    float across_one, across_two;  // its kernel values with i of the step before (and of the one before that), less those with j
    T diagonal, with_i;            // with_i: K_ij, for an offer of j
    double gradient;
    double up, down;  // how far the variable may move
};
// Offers lie so far apart that the threads of a warp, reading `low` of one each, meet in few banks of the shared memory.
template <typename T>
struct Slot {
    Offer<T> offer;
    float4 apart;
};

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
__device__ inline float warp_max(float x) { return -from_ordered(warp_least(ordered(-x))); }

// The thread of the warp with the least rating, up to the last five bits of it, in whose place its number stands: so one
// reduction tells all threads which it is.
__device__ inline int warp_best(float rating) { return warp_least((ordered(rating) & ~31u) | threadIdx.x % 32) & 31u; }

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
template <typename T>
struct Board {
    using Offer = ::Offer<T>;
    using Slot = ::Slot<T>;
    Slot of_warps[MOST_WARPS];
    Slot of_blocks[MOST_BLOCKS];
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
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(address(&of_blocks[from].offer)), "r"(to));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(address(&arrived)), "r"(to));
        const uint4* words = reinterpret_cast<const uint4*>(&offer);
        for (int part = 0; part < sizeof(Offer) / sizeof(uint4); ++part)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                             place + 16 * part),
                         "r"(words[part].x), "r"(words[part].y), "r"(words[part].z), "r"(words[part].w), "r"(barrier)
                         : "memory");
#endif
    }

    // Offers are in shared memory, for which the scope of the block suffices; that of the cluster would empty the first cache.
    __device__ void receive(unsigned parity) {
#if __CUDA_ARCH__ >= 900
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra AGAIN;\n}" ::"r"(address(&arrived)),
            "r"(parity)
            : "memory");
#endif
    }

    // The best of the offers that all threads of the cluster make; `high`, where it matters, is the largest of all. `fill` writes
    // the rest of a thread's offer; only the best thread of each warp does.
    template <bool WITH_HIGH, typename Fill>
    __device__ Offer agree(float low, float high, Fill fill, unsigned parity, int rank, int blocks) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
        const int chosen = warp_best(low);
        if constexpr (WITH_HIGH) high = warp_max(high);
        if (lane == chosen) {
            Offer& mine = of_warps[warp].offer;
            mine.low = low, mine.high = high;
            fill(mine);
        }
        __syncthreads();
        if (blocks == 1) return best<WITH_HIGH>(of_warps, warps);
        if (warp == 0) {
            const Offer offer = best<WITH_HIGH>(of_warps, warps);
            if (lane < blocks) send(offer, rank, lane);
        }
        receive(parity);
        if (threadIdx.x == 0) expect(blocks);
        return best<WITH_HIGH>(of_blocks, blocks);
    }

    template <bool WITH_HIGH>
    __device__ Offer best(const Slot* slots, int count) const {
        const int lane = threadIdx.x % 32;
        Offer offer = slots[warp_best(lane < count ? slots[lane].offer.low : NEVER)].offer;
        float high = -NEVER;
        if constexpr (WITH_HIGH) high = warp_max(lane < count ? slots[lane].offer.high : -NEVER);
        offer.high = high;
        return offer;
    }
};

// The direction of a step: variable i rose and j fell, or the other way round.
struct Direction {
    int i = -1, j = -1;
    float curvature = 0.0f;
};

// What a step along a direction does to variable k.
__device__ inline float along(int k, int i, int j, float step) { return k == i ? step : k == j ? -step : 0.0f; }

// How far the two variables of the present direction and of the two before may move. The threads of a warp share the work: each
// of the first six knows one variable.
struct Rooms {
    int k = -1;
    double up = 0.0, down = 0.0;

    // The directions before this one move by two threads, and the first two get the variables of the present one.
    template <typename T>
    __device__ void shift(const Offer<T>& i, const Offer<T>& j) {
        const int lane = threadIdx.x % 32;
        k = __shfl_up_sync(~0u, k, 2), up = __shfl_up_sync(~0u, up, 2), down = __shfl_up_sync(~0u, down, 2);
        if (lane == 0) k = i.k, up = i.up, down = i.down;
        if (lane == 1) k = j.k, up = j.up, down = j.down;
    }

    // Whether the change of each variable, a function of its number that is off by less than `error`, leaves it inside its box;
    // of `directions` directions.
    template <typename Change>
    __device__ bool hold(Change change, float error, int directions) const {
        const float by = change(k);
        const bool holds = by + error < static_cast<float>(up) && error - by < static_cast<float>(down);
        return __all_sync(~0u, threadIdx.x % 32 >= 2 * directions || holds);
    }

    __device__ void move(double by) { up -= by, down += by; }
};

// --- the solver ----------------------------------------------------------------------------------------------------------------

// The values of row k for this thread's variables. Rows are padded with finite values, so that whole packs may be read.
template <typename T, int E>
__device__ inline void load_row(const Tile& tile, int k, int begin, T (&values)[E]) {
    constexpr int AT_ONCE = E * sizeof(T) < 16 ? E : 16 / sizeof(T);
    struct alignas(AT_ONCE * sizeof(T)) Pack {
        T at[AT_ONCE];
    };
    const Pack* packs = reinterpret_cast<const Pack*>(static_cast<const T*>(tile.K) + k * tile.width + begin);
    __builtin_assume(__isGlobal(packs));
#pragma unroll
    for (int p = 0; p < E / AT_ONCE; ++p) {
        const Pack pack = begin < tile.n ? packs[p] : Pack{};
#pragma unroll
        for (int e = 0; e < AT_ONCE; ++e) values[p * AT_ONCE + e] = pack.at[e];
    }
}

// values[at], by selections: an index that is known at run time only would move the values out of the registers.
template <typename T, int E>
__device__ inline T pick(const T (&values)[E], int at) {
    T value = values[0];
#pragma unroll
    for (int e = 1; e < E; ++e) value = at == e ? values[e] : value;
    return value;
}

// GROUPS: how many sums are kept. With none, a step moves one variable.
template <typename T, int GROUPS, int E, int THREADS>
__global__ void __launch_bounds__(THREADS) solve_tiles(const Tile* tiles, double* beta, double* gradient, const double* lower,
                                                       const double* upper, Result* results, double tolerance, long most_steps) {
    using Offer = ::Offer<T>;
    __shared__ Board<T> boards[2];
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
    double middle[GROUPS == 2 ? 2 : 1] = {}, lowest_curvature = results[number].lowest_curvature;
    float violation = 0.0f;
    bool confirmed = false;
    // The two directions before this one, of which `known` have slope zero, and their rows: that of i less that of j.
    Direction one, two;
    T D_one[E] = {}, D_two[E] = {};
    float one_two = 0.0f;
    Rooms rooms;
    int known = 0;
    unsigned round = 0;
    long step = 0;
    for (;; ++step) {
        float low = 0.0f, high = 0.0f;
        int at = 0;  // the variable of this thread that it offers
        if constexpr (GROUPS == 0) {
#pragma unroll
            for (int e = 0; e < E; ++e) {
                const bool may_move = g[e] < 0.0 ? b[e] < u[e] : b[e] > l[e];
                const float slope = may_move ? fabsf(static_cast<float>(g[e])) : 0.0f;
                const float gain = slope * (slope / fmaxf(static_cast<float>(diagonal[e]), LEAST_CURVATURE));
                high = fmaxf(high, slope);
                if (-gain < low) low = -gain, at = e;
            }
            const auto fill = [&](Offer& mine) {
                const double curvature = fmax(static_cast<double>(pick(diagonal, at)), static_cast<double>(LEAST_CURVATURE));
                const double before = pick(b, at);
                const double moved = fmin(fmax(before - pick(g, at) / curvature, pick(l, at)), pick(u, at));
                mine.k = begin + at, mine.diagonal = pick(diagonal, at);
                mine.gradient = moved - before, mine.up = moved;  // the change, and the new dual
            };
            const Offer best = boards[round & 1].template agree<true>(low, high, fill, round / 2 & 1, rank, blocks);
            ++round;
            violation = best.high;
            if (violation <= tolerance || step >= most_steps || !(best.low < 0.0f) || best.gradient == 0.0) break;
            if (best.diagonal < 0.0) lowest_curvature = -1.0;
            T row[E];
            load_row(tile, best.k, begin, row);
#pragma unroll
            for (int e = 0; e < E; ++e) {
                g[e] += best.gradient * static_cast<double>(row[e]);
                if (begin + e == best.k) b[e] = best.up;
            }
        } else {
            // i: the lowest gradient among the variables that may rise, in the group with the largest violation
            Offer i{};
            float worst = -1.0f;
            int group = 0;
            const auto fill = [&](Offer& mine) {
                const double dual = pick(b, at);
                mine.k = begin + at, mine.gradient = pick(g, at), mine.diagonal = pick(diagonal, at);
                mine.up = pick(u, at) - dual, mine.down = dual - pick(l, at);
                mine.across_one = static_cast<float>(pick(D_one, at)), mine.across_two = static_cast<float>(pick(D_two, at));
            };
#pragma unroll
            for (int side = 0; side < GROUPS; ++side) {
                low = NEVER, high = -NEVER;
#pragma unroll
                for (int e = 0; e < E; ++e) {
                    if (GROUPS == 2 && (begin + e >= tile.split) != (side == 1)) continue;
                    const float above = static_cast<float>(g[e] - middle[side]);
                    if (b[e] > l[e]) high = fmaxf(high, above);
                    if (b[e] < u[e] && above < low) low = above, at = e;
                }
                const Offer lowest = boards[round & 1].template agree<true>(low, high, fill, round / 2 & 1, rank, blocks);
                ++round;
                const bool rises = lowest.low<NEVER, falls = lowest.high> - NEVER;
                const float excess = rises && falls ? lowest.high - lowest.low : 0.0f;
                if (excess > worst) worst = excess, i = lowest, group = side;
                if (rises || falls)
                    middle[side] += 0.5f * (rises ? lowest.low : lowest.high) + 0.5f * (falls ? lowest.high : lowest.low);
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
            low = 0.0f;
            float excess[E];
#pragma unroll
            for (int e = 0; e < E; ++e) {
                excess[e] = static_cast<float>(g[e] - i.gradient);
                if (GROUPS == 2 && (begin + e >= tile.split) != (group == 1)) continue;
                const T diagonals = i.diagonal + diagonal[e];
                const float met = static_cast<float>(diagonals - T(2) * K_i[e]);
                const float floor = CURVATURE_FLOOR * fmaxf(static_cast<float>(diagonals), 0.0f) + LEAST_CURVATURE;
                const float gain = excess[e] * __fdividef(excess[e], fmaxf(met, floor));
                if (b[e] > l[e] && excess[e] > 0.0f && -gain < low) low = -gain, at = e;
            }
            const auto fill_j = [&](Offer& mine) {
                fill(mine);
                mine.with_i = pick(K_i, at), mine.excess = pick(excess, at);
            };
            const Offer j = boards[round & 1].template agree<false>(low, 0.0f, fill_j, round / 2 & 1, rank, blocks);
            ++round;
            if (!(j.low < 0.0f)) break;
            load_row(tile, j.k, begin, K_j);
            const T diagonals = i.diagonal + j.diagonal, met = diagonals - T(2) * j.with_i;
            const T floor = static_cast<T>(CURVATURE_FLOOR) * max(diagonals, T(0)) + static_cast<T>(LEAST_CURVATURE);
            if (met < T(0)) lowest_curvature = fmin(lowest_curvature, static_cast<double>(met / max(diagonals, floor)));

            // The lengths of steps are rounded to float32: what matters is that i and j, and the gradient, see the same ones.
            const float curvature = static_cast<float>(max(met, floor)), slope = j.excess;
            const float with_one = i.across_one - j.across_one, with_two = i.across_two - j.across_two;
            const float plain = __fdividef(slope, curvature);
            const double end = fmin(i.up, j.down);
            float t = plain, t_one = 0.0f, t_two = 0.0f;
            const auto change = [&](int k) {
                return along(k, i.k, j.k, t) + along(k, one.i, one.j, t_one) + along(k, two.i, two.j, t_two);
            };
            const auto error = [&] { return 1e-6f * (fabsf(t) + fabsf(t_one) + fabsf(t_two)); };
            rooms.shift(i, j);
            if (met <= floor) known = 0;
            const bool within = plain < end;
            int used = within && met > floor ? 1 : 0;
            if (known == 2) {  // the minimum over three directions: the first column of the inverse of their matrix
                const float minor = one.curvature * two.curvature - one_two * one_two;
                const float by_one = one_two * with_two - with_one * two.curvature;
                const float by_two = with_one * one_two - one.curvature * with_two;
                const float determinant = curvature * minor + with_one * by_one + with_two * by_two;
                if (determinant > LEAST_DETERMINANT * curvature * one.curvature * two.curvature) {
                    const float scale = __fdividef(slope, determinant);
                    t = scale * minor, t_one = scale * by_one, t_two = scale * by_two;
                    if (rooms.hold(change, error(), 3)) used = 3;
                }
            }
            if (known > 0 && used < 3) {  // over two
                const float determinant = curvature * one.curvature - with_one * with_one;
                t_two = 0.0f;
                if (determinant > LEAST_DETERMINANT * curvature * one.curvature) {
                    const float scale = __fdividef(slope, determinant);
                    t = scale * one.curvature, t_one = -scale * with_one;
                    if (rooms.hold(change, error(), 2)) used = 2;
                }
            }
            if (used < 2) t_one = t_two = 0.0f;
            const double length = used >= 2 ? t : within ? plain : end;
            const auto exact_change = [&](int k) {
                const double by = k == i.k ? length : k == j.k ? -length : 0.0;
                return by + along(k, one.i, one.j, t_one) + along(k, two.i, two.j, t_two);
            };
            rooms.move(exact_change(rooms.k));
#pragma unroll
            for (int e = 0; e < E; ++e) {
                const T D = K_i[e] - K_j[e];
                g[e] += length * static_cast<double>(D) + static_cast<double>(t_one) * static_cast<double>(D_one[e]) +
                        static_cast<double>(t_two) * static_cast<double>(D_two[e]);
                D_two[e] = D_one[e], D_one[e] = D;
            }
            const auto is_mine = [&](int k) { return static_cast<unsigned>(k - begin) < E; };
            if (is_mine(i.k) || is_mine(j.k) || is_mine(one.i) || is_mine(one.j) || is_mine(two.i) || is_mine(two.j)) {
#pragma unroll
                for (int e = 0; e < E; ++e) {
                    const int k = begin + e;
                    b[e] = fmin(fmax(b[e] + exact_change(k), l[e]), u[e]);
                    if (used < 2 && k == i.k && length == i.up) b[e] = u[e];
                    if (used < 2 && k == j.k && length == j.down) b[e] = l[e];
                }
            }
            two = one, one = {i.k, j.k, curvature};
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
