// No memory, no descriptors, no threads while a channel between processes is made, found and left.
#include <gtest/gtest.h>

#include "faults/failing_allocations.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"
#include "support/one_device.hpp"
#include "support/shared_channel.hpp"

namespace mgi::faults {
namespace {

// A channel in two runtimes, which leave it at the end of a scope at the latest.
class Opened {
public:
    explicit Opened(test::Members& members) : members_(members) {}
    Opened(Opened const&) = delete;
    Opened& operator=(Opened const&) = delete;
    ~Opened() {
        Spared const spared;  // what failed has failed
        for (auto const& [member, channel] : channels_) {
            try {
                members_.runtime(member).delete_channel(channel);
            } catch (Error const&) {
                // It has left.
            }
        }
    }
    void open(std::uint32_t id, ChannelSpec const& spec, std::vector<test::Owned> const& ends) {
        auto const seen = [&](std::uint32_t m) {
            return test::Members::seen_from(m, spec, ends, ends);
        };
        channels_.reserve(2);
        auto const made =
            members_.runtime(0).impl()->make_part(id, seen(0), members_.members_of(0, ends, ends));
        channels_.emplace_back(0, made.channel);
        auto const found = members_.runtime(1).impl()->open_part(
            id, seen(1), members_.members_of(1, ends, ends), made.descriptor);
        channels_.emplace_back(1, found.value());
    }
    void leave() {
        for (auto const& [member, channel] : channels_) {
            members_.runtime(member).delete_channel(channel);
        }
    }

private:
    test::Members& members_;
    std::vector<std::pair<std::uint32_t, Channel>> channels_;
};

TEST(Allocation, ChannelBetweenProcesses) {
    test::Members members(2, test::one_device());
    std::vector<test::Owned> const ends{members.create_endpoint(0), members.create_endpoint(1)};
    std::uint64_t const left = members.runtime(0).memory_left();
    std::uint32_t id = 0;
    for (bool const by_reference : {true, false}) {
        ChannelSpec spec;
        spec.schema = test::numbered_schema();
        spec.routing = Routing::partition("key");
        spec.options.by_reference = by_reference;
        spec.options.segment_rows = 16;
        spec.options.slots = spec.options.credits = 2;
        spec.options.max_groups = 2;
        spec.options.receive_limit = 1 << 20;
        spec.options.sorters = by_reference ? 1 : 0;
        fail_each_allocation([&] {
            Opened opened(members);
            opened.open(id++, spec, ends);
            opened.leave();
        });
    }
    EXPECT_EQ(members.runtime(0).memory_left(), left) << "of what was charged something is left";
}

}  // namespace
}  // namespace mgi::faults
