// A team of threads: every part of the work is done once, whatever the members do.
#include "maxmargin/team.hpp"

#include <omp.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"

namespace tests {
namespace {

using maxmargin::Team;

// Many short pieces of work, of sizes that no team divides evenly.
void test_shares(int size) {
    std::vector<int> done(1000, 0);
    const int rounds = 300;
    Team::gather(size, [&](Team& team) {
        for (int round = 0; round < rounds; ++round)
            team.share(round % 3 ? 1000 : 1, [&](int first, int last) {
                for (int k = first; k < last; ++k) ++done[k];
            });
    });
    CHECK(done[0] == rounds);
    for (int k = 1; k < 1000; ++k) CHECK(done[k] == rounds - rounds / 3);
}

// Members that fell asleep because nothing came for a while wake up.
void test_pause() {
    std::vector<int> done(64, 0);
    Team::gather(3, [&](Team& team) {
        for (int round = 0; round < 4; ++round) {
            team.share(64, [&](int first, int last) {
                for (int k = first; k < last; ++k) ++done[k];
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    });
    for (int count : done) CHECK(count == 4);
}

void test_exception() {
    bool thrown = false;
    try {
        Team::gather(2, [](Team&) { throw std::runtime_error("out of memory, say"); });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
}

// Within a parallel region a team is one thread.
void test_nested() {
    int sums[2] = {0, 0};
#pragma omp parallel for num_threads(2)
    for (int t = 0; t < 2; ++t)
        Team::gather(4, [&](Team& team) { team.share(10, [&](int first, int last) { sums[t] += last - first; }); });
    CHECK(sums[0] == 10 && sums[1] == 10);
}

}  // namespace

void test_team() {
    for (int size : {1, 2, 3, 7}) run("team of " + std::to_string(size), [=] { test_shares(size); });
    run("team, pause", test_pause);
    run("team, exception", test_exception);
    run("team, nested", test_nested);
}

}  // namespace tests
