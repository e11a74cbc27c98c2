// A team of threads that share short pieces of work: the blocks of a Newton step, each some tens of microseconds long. Waking a
// sleeping thread takes as long, so the members spin while they wait, and go to sleep only if nothing comes for a while.
//
// Work is cut into one block for each member, always at the same places, so that the memory of a block stays in the cache of its
// member. A block that its member has not begun when another one is done with its own is taken by that one: a member whose
// processor is busy with something else holds nobody up.
#pragma once
#include <atomic>
#include <cstdint>

namespace maxmargin {

class Team {
public:
    // Run `body(team)` with a team of at most `size` threads: this one, and others that serve until the body has ended.
    template <class Body>
    static void gather(int size, Body&& body) {
        Team team;
        struct Call {
            Team& team;
            Body& body;
        } call{team, body};
        with_threads(
            team, size,
            [](void* context) {
                auto& c = *static_cast<Call*>(context);
                c.body(c.team);
            },
            &call);
    }

    int size() const { return size_; }

    // Call `work(first, last)` for ranges that together are [0, n), in any order and side by side.
    template <class Work>
    void share(int n, Work&& work) {
        if (size_ == 1 || n <= 1) return work(0, n);
        struct Call {
            Work& work;
            int n, n_blocks;
            int edge(int block) const { return static_cast<int>(static_cast<std::int64_t>(n) * block / n_blocks); }
        } call{work, n, size_};
        run(
            [](void* context, int block) {
                auto& c = *static_cast<Call*>(context);
                c.work(c.edge(block), c.edge(block + 1));
            },
            &call);
    }

private:
    using Task = void (*)(void* context, int block);
    static constexpr int most_members = 64;
    struct alignas(64) Block {  // on a cache line of its own
        std::atomic<std::uint64_t> state = 0;
    };

    static void with_threads(Team& team, int size, void (*body)(void*), void* context);
    void run(Task task, void* context);
    void serve(int member);
    bool take(int block, std::uint64_t number);

    // Pieces of work are numbered from 1 on. The state of a block is 2 k - 1 when it has been taken for piece k, and 2 k when it
    // is finished, so nobody can take a block twice, or one of an earlier piece.
    alignas(64) std::atomic<std::uint64_t> number_ = 0;
    Block blocks_[most_members];
    std::atomic<bool> dismissed_ = false;
    Task task_ = nullptr;
    void* context_ = nullptr;
    int size_ = 1;
};

}  // namespace maxmargin
