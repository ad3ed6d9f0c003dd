// How processes of a server hand each other the memory of their GPUs, for a channel: descriptors go over a socket. The
// importing process says there when its use of them is over, and both processes keep their ends open as long as they have
// the memory: the kernel closes those of a process that dies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/memory.hpp"
#include "transport/wire/socket.hpp"

namespace mgi {

using transport::wire::Descriptor;

// What one process has handed to another one.
struct GpuHandover {
    std::shared_ptr<Descriptor const> connection;
    std::vector<Descriptor> memories;
};

// Where a process that imports is found, for one channel, or for what processes share beside channels.
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

// Tells the process that handed something over that its use is over, here.
void say_over(Descriptor const& connection) noexcept;
// Whether the process that handed something over has it no more.
[[nodiscard]] bool is_closed(Descriptor const& connection) noexcept;

// The processes that have imported what this one shares for a channel. Thread-safe.
class GpuImporters {
public:
    void add(Descriptor connection);
    // Over once all have said so. Broken: one of them has closed without a word.
    [[nodiscard]] gpu::Use use() noexcept;

private:
    enum class Heard : std::uint8_t { Nothing, Word, End };
    friend bool is_closed(Descriptor const& connection) noexcept;
    static Heard hear(Descriptor const& connection) noexcept;

    struct Importer {
        Descriptor connection;  // open until the memory is given to others, or freed
        Heard heard = Heard::Nothing;
    };
    std::mutex mutex_;
    std::vector<Importer> importers_;
};

}  // namespace mgi
