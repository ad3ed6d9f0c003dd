/// \file
/// Copies between the host's memory and a GPU's, as fast as the link is: several threads fill pinned buffers, or
/// empty them, while the copy engine works on others. What the driver is given is always pinned, since it copies
/// other memory three to five times slower.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace mgi::gpu {

/// Most bytes of a piece.
inline constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

/// Makes all buffers for a GPU, which copies make otherwise: memory is pinned while no kernel is resident that waits for the
/// host. Throws Error as Driver::check does.
void make_pinned_buffers(int gpu);

/// Where a thread puts what it has for the GPU, a piece at a time.
class PieceWriter {
public:
    PieceWriter() = default;
    PieceWriter(PieceWriter const&) = delete;
    PieceWriter& operator=(PieceWriter const&) = delete;
    virtual ~PieceWriter() = default;

    /// Room for kPieceBytes, until the next `send`. Waits for a buffer.
    virtual char* room() = 0;
    /// Has the first bytes of it copied to `to`.
    virtual void send(char* to, std::size_t bytes) = 0;
};

/// Calls `write(job, writer)` for each job, from several threads, and waits until all pieces have come. `gpu`: below 0
/// their memory is the host's, as in tests. Throws Error as Driver::check does, and what `write` throws; then nothing is
/// on its way any more. Thread-safe; copies of one direction to one GPU are in turn.
void write_pieces(int gpu, std::size_t jobs,
                  std::function<void(std::size_t job, PieceWriter& writer)> const& write);

/// Memory of a GPU that is copied to the host.
struct Reading {
    char* to = nullptr;
    void const* from = nullptr;
    std::size_t bytes = 0;
};
/// Copies all of them, likewise.
void read_pieces(int gpu, std::vector<Reading> const& readings);

}  // namespace mgi::gpu
