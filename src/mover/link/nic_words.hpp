// What all processes of a server say about its NICs, in memory that they share: who is busy and what is
// lent. Each word stands for itself, hence relaxed; no lock, so that a process that dies holds none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "transport/wire/wire_client.hpp"

namespace mgi::mover::link {

// All zero at first. Its layout is that of kLayout; who changes the one changes the other.
struct NicWords {
    static constexpr std::uint64_t kLayout = 0x4d47494e49430001;
    static constexpr std::uint32_t kNics = 64;
    static constexpr std::uint32_t kProcesses = 64;
    using Word = std::atomic<std::uint64_t>;
    static_assert(Word::is_always_lock_free);

    struct Process {
        Word name{0};   // random; 0: nobody's row
        Word heard{0};  // when it last said something
        std::array<Word, kNics> lent{};
    };
    Word layout{0};
    std::array<Word, kNics> nics{};        // which NIC a place is about; 0: none yet
    std::array<Word, kNics> busy_until{};  // its owners mean to use it until then
    std::array<Process, kProcesses> processes{};
};

}  // namespace mgi::mover::link
