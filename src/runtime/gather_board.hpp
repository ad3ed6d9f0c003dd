// Where processes of a server tell each other something by memory that all of them map: in microseconds, where a
// coordinator takes a trip to another process and back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/wire/socket.hpp"

namespace mgi {

// What each process has of a board. Of several threads one uses it at a time, and others ask the coordinator. All processes
// gather the same things in the same order. It only makes haste: where somebody does not come soon, or wants to stop, it is over for all, from the same
// gather on, and the coordinator does the rest.
class GatherBoard {
public:
    // Of words; longer ones go by the coordinator.
    static constexpr std::size_t kMostBytes = std::size_t{64} << 10;

    // Memory for a board of so many processes. Throws Error(OutOfMemory).
    static transport::wire::Descriptor make(std::size_t processes);
    // Maps it. Throws Error(OutOfMemory), InvalidArgument for memory of another size.
    GatherBoard(int descriptor, std::size_t processes, std::size_t me);
    ~GatherBoard();
    GatherBoard(GatherBoard const&) = delete;
    GatherBoard& operator=(GatherBoard const&) = delete;

    // What all say of `what`, by process; none where they have to ask the coordinator, which all find alike.
    std::optional<std::vector<std::string>> gather(std::string_view what, std::string_view words,
                                                   std::function<bool()> const& stop);
    // Nobody uses it any more.
    [[nodiscard]] bool is_over() const;

private:
    // What a process says, in every second gather the same one.
    struct alignas(64) Note {
        std::atomic<std::uint64_t> gather{0};  // its number; written last
        std::uint64_t what = 0;                // a hash
        std::uint64_t size = 0;
        char bytes[kMostBytes];
    };
    struct alignas(64) Head {
        std::atomic<std::uint64_t> done{0};  // gathers that are complete, and kOver
    };
    static constexpr std::uint64_t kOver = std::uint64_t{1} << 63;
    static constexpr std::uint64_t kTooLong = ~std::uint64_t{0};

    static std::size_t bytes_of(std::size_t processes);
    [[nodiscard]] Note& note(std::size_t process, std::uint64_t gather) const;
    [[nodiscard]] bool all_have_said(std::uint64_t gather, std::uint64_t hash) const;
    [[nodiscard]] bool wait(std::uint64_t gather, std::uint64_t hash,
                            std::function<bool()> const& stop);

    std::size_t const processes_;
    std::size_t const me_;
    Head* head_ = nullptr;
    Note* notes_ = nullptr;
    std::mutex mutex_;
    std::uint64_t number_ = 0;  // of the last gather
};

}  // namespace mgi
