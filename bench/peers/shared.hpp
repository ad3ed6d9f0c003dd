/// \file
/// The limit of an exchange over processes: segments in memory that all of them share, filled and
/// read in place. One producer and one consumer a ring, no tickets, no groups, no errors, and nobody
/// notices a process that dies.
#pragma once

#include "peers/pipeline.hpp"

namespace mgi::peers {

/// Segments from one process to another, in memory that both see. Zeroed memory is an empty ring.
class Ring {
public:
    static std::uint64_t bytes(Segments const& segments);

    Ring(char* memory, Segments const& segments);

    // Of who sends.
    char* open();
    void publish(std::uint32_t rows, bool last);
    // Of who receives.
    std::optional<Carrier::Arrived> arrived();
    void release();

private:
    struct Slot;
    [[nodiscard]] Slot& slot(std::uint64_t number) const;
    [[nodiscard]] char* segment(std::uint64_t number) const;

    char* memory_;
    Segments segments_;
    std::uint64_t next_ = 0;  ///< of this process' side
};

/// Makes, or finds, what the processes of `driver` share, and returns this one's part in it. Throws
/// Error(OutOfMemory).
std::unique_ptr<Carrier> share(Options const& options, Driver& driver);

}  // namespace mgi::peers
