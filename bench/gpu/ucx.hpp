/// \file
/// UCX, opened at run time: tagged messages between the GPUs of some processes. The environment variable MGI_UCX_LIBRARY has the
/// path of libucp.so.0 where that is not found by its name. Built where UCX's headers are (libucx-dev, or the PyPI
/// package's); else nothing here can be had.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mgi::bench {

/// This process' end of all ways to others. Throws what UCX says, and where there is none.
class Ucx {
public:
    Ucx();
    ~Ucx();
    Ucx(Ucx const&) = delete;
    Ucx& operator=(Ucx const&) = delete;

    /// Where others reach this process; for `connect` of theirs.
    [[nodiscard]] std::string address() const;
    /// By rank.
    void connect(std::vector<std::string> const& addresses);

    // Start messages of so many bytes, of host or GPU memory, which are matched by sender and tag.
    void send(std::uint32_t to, std::uint32_t from, std::uint32_t tag, void const* data,
              std::uint64_t bytes);
    void receive(std::uint32_t from, std::uint32_t tag, void* data, std::uint64_t bytes);
    /// Until all of them are done; throws when that takes long.
    void wait();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mgi::bench
