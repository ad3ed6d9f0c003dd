/// \file
/// A fixture with a small channel 'sales' from endpoints a and b to b and c, by reference or by copy.
#pragma once

#include <gtest/gtest.h>

#include <atomic>

#include "support/flow.hpp"
#include "support/kernels.hpp"

namespace mgi::test {

/// How long the tests of this fixture wait for what must happen.
constexpr std::chrono::seconds kLimit{40};

class SalesChannel : public ::testing::TestWithParam<bool> {
protected:
    Channel open(Routing const& routing = Routing::partition("key")) {
        ChannelSpec spec;
        spec.sources = {a_, b_};
        spec.destinations = {b_, c_};
        spec.schema = numbered_schema();
        spec.routing = routing;
        spec.options = options_;
        spec.options.by_reference = GetParam();
        spec.options.name = "sales";
        return runtime_.create_channel(spec);
    }
    static LaunchOptions shape(std::uint32_t groups, std::uint32_t threads = 1) {
        LaunchOptions options;
        options.groups = groups;
        options.threads = threads;
        return options;
    }
    /// A launch at an endpoint that receives until it is told how that ends.
    Launch receive_at(Endpoint end, Channel const& channel, std::atomic<int>& errors,
                      std::uint32_t groups = 2, std::uint32_t threads = 1) {
        return runtime_.launch(
            end, shape(groups, threads),
            [&errors](device::Group const& group, device::Shared& shared,
                      device::Channel const& from) {
                if (from.is_source() && from.flush_wait(group, shared) == device::Status::Error) {
                    ++errors;
                    return;
                }
                if (receive_all(group, shared, from) == device::Status::Error) ++errors;
            },
            channel.on(end));
    }
    Runtime runtime_ = Runtime::local();
    Endpoint a_ = runtime_.create_endpoint("cpu");
    Endpoint b_ = runtime_.create_endpoint("cpu");
    Endpoint c_ = runtime_.create_endpoint("cpu");
    ChannelOptions options_;
};

}  // namespace mgi::test
