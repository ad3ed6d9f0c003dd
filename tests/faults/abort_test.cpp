// Failing, deleting, or losing the runtime at any time, with real threads: everybody is told.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include <mgi/runtime.hpp>

#include "support/flow.hpp"
#include "support/hang_guard.hpp"
#include "support/random.hpp"
#include "support/tables.hpp"

namespace mgi::faults {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::Shared;
using device::Status;
using test::KeyValue;

// Sends and receives for ever, until it is told that the channel has failed.
struct Endless {
    void operator()(Group const& group, Shared& shared, device::Channel const& channel) const {
        KeyValue rows[40];
        for (int i = 0; i < 40; ++i) rows[i] = {i, i};
        for (device::u32 round = 0;; ++round) {
            auto const result = channel.send_rows(group, shared, rows, 40);
            device::ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Ok) channel.release(group, shared, batch);
            if (result.status == Status::Error && status == Status::Error) return;
            device::backoff(round % 64);
        }
    }
};

enum class How { Fail, Delete, RuntimeGoes };

class Abort : public ::testing::TestWithParam<How> {};

TEST_P(Abort, AtAnyTimeEndsEveryLaunch) {
    int const rounds = test::kSanitized ? 60 : 200;
    test::Random random(42);
    for (int i = 0; i < rounds; ++i) {
        RuntimeOptions options;
        options.cpu_devices = 1;
        options.pin = false;
        std::optional<Runtime> runtime = Runtime::local(options);
        std::vector<Endpoint> const endpoints{runtime->create_endpoint("cpu"),
                                              runtime->create_endpoint("cpu")};
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints;
        spec.schema = test::numbered_schema();
        spec.routing = random.one_in(2) ? Routing::partition("key") : Routing::broadcast();
        spec.options.by_reference = random.one_in(2);
        spec.options.segment_rows = 1 + static_cast<std::uint32_t>(random.below(64));
        spec.options.max_groups = 2;
        bool const sorters = spec.routing.kind == device::RoutingKind::Partition;
        spec.options.sorters = sorters && random.one_in(3) ? 1 : 0;
        std::optional<Channel> channel = runtime->create_channel(spec);
        LaunchOptions shape;
        shape.groups = 1 + static_cast<std::uint32_t>(random.below(2));
        shape.threads = 1 + static_cast<std::uint32_t>(random.below(2));
        std::vector<Launch> launches;
        std::vector<device::Channel> const at{channel->on(endpoints[0]), channel->on(endpoints[1])};
        for (std::size_t e = 0; e < 2; ++e) {
            launches.push_back(runtime->launch(endpoints[e], shape, Endless{}, at[e]));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
        switch (GetParam()) {
            case How::Fail: channel->fail(ErrorCode::Interrupted, "enough"); break;
            case How::Delete: runtime->delete_channel(*channel); break;
            case How::RuntimeGoes: runtime.reset(); break;
        }
        if (random.one_in(2)) channel.reset();
        for (Launch& launch : launches) EXPECT_NO_THROW(launch.wait(20s)) << "round " << i;
        if (::testing::Test::HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(How, Abort, ::testing::Values(How::Fail, How::Delete, How::RuntimeGoes));

}  // namespace
}  // namespace mgi::faults
