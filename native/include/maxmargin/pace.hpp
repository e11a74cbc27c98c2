// How many threads make the steps of a tile: as many as are fastest, by the clock. More threads have less to do each, and wait
// longer for each other; where the balance lies depends on the processor, and on what else it has to do.
#pragma once
#include <vector>

namespace maxmargin {

class Pace {
public:
    static constexpr int fewest_variables = 2048;  // a step over fewer takes less time than agreeing on it

    // For a tile of so many variables. There is no choice within a parallel region, and if the variables are few.
    explicit Pace(int n_variables);

    // Whether there is a choice; without one, nothing needs to be noted.
    bool has_choice() const { return sizes_.size() > 1; }
    // The number of threads for the next steps.
    int size() const { return sizes_[at_]; }
    // Whether that number is on trial: then few steps tell enough.
    bool on_trial() const { return at_ != best_; }
    // These steps have taken so long. The numbers next to the best one are tried now and then, because the machine may have other
    // work: soon after the best one has changed, then less and less often.
    void note(long steps, double seconds);

private:
    std::vector<int> sizes_;
    std::vector<double> seconds_;       // of a step with each number of threads; negative: not known
    int at_ = 0, best_ = 0, kind_ = 0;  // kind_: of tile, by its size
    int interval_, left_;               // notes from one trial to the next, and those that are left
};

}  // namespace maxmargin
