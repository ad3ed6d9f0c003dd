/// \file
/// Runs a functor in groups of threads, as a launch of the runtime does, for tests that need no
/// runtime.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <mgi/device/group.hpp>

namespace mgi::test {

/// Scratch of one group, aligned as a launch's is.
class Scratch {
public:
    explicit Scratch(std::uint32_t bytes) : words_((bytes + 63) / 64) {}
    [[nodiscard]] device::Shared shared() {
        return {reinterpret_cast<std::byte*>(words_.data()),
                static_cast<std::uint32_t>(words_.size() * sizeof(Line))};
    }

private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::vector<Line> words_;
};

/// Calls `body(group, shared)` in `groups` * `threads` OS threads and throws the first exception.
template <class Body>
void run_groups(std::uint32_t groups, std::uint32_t threads, std::uint32_t scratch, Body&& body,
                std::uint64_t launch = 1) {
    std::vector<std::unique_ptr<device::HostBarrier>> barriers;
    std::vector<Scratch> memory;
    for (std::uint32_t g = 0; g < groups; ++g) {
        barriers.push_back(std::make_unique<device::HostBarrier>(threads));
        memory.emplace_back(scratch);
    }
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::thread> running;
    for (std::uint32_t g = 0; g < groups; ++g) {
        for (std::uint32_t t = 0; t < threads; ++t) {
            running.emplace_back([&, g, t] {
                device::Group const group{
                    g, groups, t, threads, launch, threads == 1 ? nullptr : barriers[g].get()};
                device::Shared shared = memory[g].shared();
                try {
                    body(group, shared);
                } catch (device::GroupAborted const&) {
                    // Another thread of the group has failed and is reported.
                } catch (...) {
                    barriers[g]->leave();
                    std::lock_guard const lock(mutex);
                    if (!failure) failure = std::current_exception();
                }
            });
        }
    }
    for (auto& thread : running) thread.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace mgi::test
