// A crew of threads agrees on the best of its offers, whatever the members do; and how many threads make the steps of a tile.
#include "maxmargin/crew.hpp"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "check.hpp"
#include "maxmargin/pace.hpp"

namespace tests {
namespace {

using maxmargin::Crew;
using maxmargin::Pace;

struct Bid {
    double value = 0.0;
    int from = 0;
};
Bid larger(const Bid& a, const Bid& b) { return a.value < b.value ? b : a; }

// Every member hears the largest bid of each round, and of equal ones that of the first member.
void test_agreements(int size) {
    std::vector<int> wrong(size, 0);
    const int rounds = 500;
    Crew<Bid>::gather(size, [&](Crew<Bid>::Member& member) {
        for (int round = 0; round < rounds; ++round) {
            const int best = round % member.size;
            const bool all_alike = round % 7 == 0;
            const Bid bid{all_alike || member.number != best ? 1.0 : 2.0, member.number};
            const Bid won = member.agree(bid, larger);
            wrong[member.number] += won.from != (all_alike ? 0 : best);
        }
    });
    for (int count : wrong) CHECK(count == 0);
}

// What a member has written before an agreement, all others can read after it.
void test_writes() {
    std::vector<int> written(4, 0);
    std::atomic<int> wrong = 0;
    Crew<Bid>::gather(4, [&](Crew<Bid>::Member& member) {
        for (int round = 1; round <= 300; ++round) {
            written[member.number] = round;
            member.agree({}, larger);
            for (int k = 0; k < member.size; ++k) wrong += written[k] != round;
            member.agree({}, larger);  // nobody writes before all have read
        }
    });
    CHECK(wrong == 0);
}

// A member that is late disturbs the crew: all members learn it in the same agreement.
void test_disturbance() {
    std::atomic<int> answers = 0, disturbed = 0;
    Crew<Bid>::gather(3, [&](Crew<Bid>::Member& member) {
        member.agree({}, larger);
        if (member.number == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        member.agree({}, larger);  // the others wait here
        member.agree({}, larger);  // and say so here
        ++answers;
        disturbed += member.disturbed();
    });
    CHECK(answers == disturbed);
    CHECK(disturbed > 0);
}

void test_alone() {
    int members = 0;
    const auto count = [&](Crew<Bid>::Member& member) {
        members += member.size;
        CHECK(member.agree({3.0, 5}, larger).from == 5);
        CHECK(!member.disturbed());
    };
    Crew<Bid>::gather(1, count);
    CHECK(members == 1);
#pragma omp parallel num_threads(2)
#pragma omp master
    Crew<Bid>::gather(3, count);  // within a parallel region
    CHECK(members == 2);
}

// The number of threads that was settled for after some notes, where a step takes these seconds.
int settled(Pace& pace, std::map<int, double> seconds, int notes) {
    for (int k = 0; k < notes; ++k) pace.note(100, 100 * seconds.at(pace.size()));
    while (pace.on_trial()) pace.note(100, 100 * seconds.at(pace.size()));
    return pace.size();
}

void test_pace() {
    const int before = omp_get_max_threads();
    omp_set_num_threads(6);
    Pace pace(1 << 20);  // no other test has tiles of this size
    CHECK(pace.has_choice());
    CHECK(settled(pace, {{1, 8.0}, {2, 5.0}, {4, 4.0}, {6, 4.5}}, 10) == 4);
    CHECK(settled(pace, {{1, 8.0}, {2, 9.0}, {4, 10.0}, {6, 20.0}}, 200) == 1);  // a busy machine
    CHECK(settled(pace, {{1, 8.0}, {2, 5.0}, {4, 4.0}, {6, 3.0}}, 200) == 6);    // a quiet one again
    Pace next(1 << 20);
    CHECK(next.size() == 6);
    CHECK(!Pace(100).has_choice());
#pragma omp parallel num_threads(2)
    CHECK(!Pace(1 << 20).has_choice());
    omp_set_num_threads(before);
}

}  // namespace

void test_crew() {
    for (int size : {2, 3, 5}) run("crew of " + std::to_string(size), [=] { test_agreements(size); });
    run("crew, writes", test_writes);
    run("crew, disturbed", test_disturbance);
    run("crew of one", test_alone);
    run("pace", test_pace);
}

}  // namespace tests
