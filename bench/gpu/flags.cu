// How fast a running kernel and the host tell each other something: a flag in mapped pinned memory,
// there and back.
#include <algorithm>
#include <vector>

#include "registry.hpp"
#include "sync.hpp"

namespace mgi::bench {
namespace {

constexpr double kHostLimitSeconds = 4;
constexpr std::uint64_t kKernelLimitNs = 2'000'000'000;

__global__ void answer(Flag* asked, Flag* answered, std::uint32_t rounds) {
    for (std::uint32_t i = 1; i <= rounds; ++i) {
        // A host that has given up gets no further answer, and this kernel ends.
        if (!await_flag_on_gpu(*asked, i, kKernelLimitNs)) return;
        set_flag(*answered, i);
    }
}

void round_trip(Context& context) {
    std::uint32_t const rounds = context.quick() ? 2000 : 20000;
    PinnedArray<Flag> const flags(2);
    std::vector<double> us;
    bool complete = true;
    for (int run = 0; run < 4; ++run) {
        set_flag(flags[0], 0);
        set_flag(flags[1], 0);
        answer<<<1, 1, 0, context.stream()>>>(flags.get(), flags.get() + 1, rounds);
        check_launch("answer flags");
        // The first is not timed: the kernel starts meanwhile.
        set_flag(flags[0], 1);
        complete = complete && await_flag(flags[1], 1, kHostLimitSeconds);
        auto const start = std::chrono::steady_clock::now();
        for (std::uint32_t i = 2; complete && i <= rounds; ++i) {
            set_flag(flags[0], i);
            complete = await_flag(flags[1], i, kHostLimitSeconds);
        }
        std::chrono::duration<double, std::micro> const took =
            std::chrono::steady_clock::now() - start;
        context.wait(context.stream(), "the kernel that answers flags");
        require(complete, "a flag was not answered in time");
        if (run > 0) us.push_back(took.count() / (rounds - 1));
    }
    std::sort(us.begin(), us.end());
    Result result;
    result.with("round_trips", rounds);
    result.figure("best_us", us.front()).figure("median_us", us[us.size() / 2]);
    result.exact = complete;
    context.add(result);
}

Registration const registered{"flags", "round trip of a flag between host and kernel", round_trip};

}  // namespace
}  // namespace mgi::bench
