// A process that has nothing left when it joins a cluster gets an error that says so.
#include <gtest/gtest.h>

#include <mgi/cluster.hpp>

#include "faults/failing_allocations.hpp"

namespace mgi::faults {
namespace {

TEST(Allocation, ClusterClient) {
    ClusterOptions options;
    options.agent = "/nowhere/agent.sock";
    options.name = "faults";
    options.timeout = std::chrono::seconds(20);
    fail_each_allocation([&] {
        try {
            ClusterClient const client(options);
            ADD_FAILURE() << "there is no agent";
        } catch (Error const& error) {
            // What is not there stays away; all else is for the caller to look at.
            if (error.code() == ErrorCode::OutOfMemory) throw;
        }
    });
}

}  // namespace
}  // namespace mgi::faults
