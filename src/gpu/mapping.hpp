/// \file
/// Memory of a GPU that is mapped (the driver's virtual memory management). The driver counts who has it: what one
/// process gives back stays there for those that have it mapped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/driver.hpp"

namespace mgi::gpu {

/// Why a GPU has no such memory that other processes map by a descriptor; empty: it has. Asked once.
std::string why_not_mapped(int gpu);

/// One range of it. What fails throws Error as Driver::check does.
class Mapping {
public:
    /// New memory of a GPU, for it and all of this process' GPUs that reach it. As it comes: not zeroed. `use` says in an
    /// error what it is for.
    Mapping(int gpu, std::uint64_t bytes, std::string const& use = "a channel's pool");
    /// Another process', which has so many bytes, by a descriptor of it, which stays the caller's: for copies by
    /// these GPUs. `what` says in an error what it is for.
    Mapping(std::vector<int> const& gpus, int descriptor, std::uint64_t bytes,
            std::string const& what);
    ~Mapping();
    Mapping(Mapping const&) = delete;
    Mapping& operator=(Mapping const&) = delete;

    [[nodiscard]] Address at() const { return at_; }
    /// All of it, somewhat more than was asked for.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    /// A new descriptor of it, the caller's.
    [[nodiscard]] int descriptor(std::string const& what) const;

private:
    void map(std::vector<int> const& gpus, std::string const& what);
    void undo() noexcept;

    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    std::uint64_t bytes_;
    MappedMemory memory_ = 0;
    Address at_ = 0;
    bool has_memory_ = false;
    bool is_mapped_ = false;
};

}  // namespace mgi::gpu
