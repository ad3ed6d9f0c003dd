// How processes of a server hand each other the memory of their GPUs: descriptors go over a socket, and who has
// imported something keeps its end of that open until it has let go. The kernel closes it for who dies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/wire/socket.hpp"

namespace mgi {

using transport::wire::Descriptor;

// What one process has handed to another one.
struct GpuHandover {
    Descriptor connection;  // open while it is in use
    std::vector<Descriptor> memories;
};

// Where a process that imports is found, for one channel.
class GpuDoor {
public:
    // Throws Error(Refused) where there are no such sockets.
    GpuDoor();
    // What others call it: hexadecimal digits.
    [[nodiscard]] std::string const& name() const { return name_; }
    // What has come, by who sent it (hand_over). Waits for nobody.
    [[nodiscard]] std::map<std::uint32_t, GpuHandover> all_that_came() const;

private:
    Descriptor listener_;
    std::string name_;
};

// Leaves descriptors, which stay the caller's, at another process' door; `me`: who sends them. Waits for nobody.
// Throws Error(Refused).
Descriptor hand_over(std::string const& door, std::uint32_t me, std::vector<int> const& memories);

// Who has imported what one process shares. Thread-safe.
class GpuImporters {
public:
    void add(Descriptor connection);
    // All have closed, or died.
    [[nodiscard]] bool have_let_go() noexcept;

private:
    std::mutex mutex_;
    std::vector<Descriptor> open_;
};

}  // namespace mgi
