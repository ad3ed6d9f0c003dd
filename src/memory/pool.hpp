// A channel's memory: a fixed part, and a growing part with a limit, from which segments are taken when
// received batches are kept. One range of addresses, so that an offset names any byte of it. The
// account is charged for the fixed part at creation and for the growing part as it grows; the machine
// is, for either, when pages are first touched. Later pools use them again (see core/block_cache): a
// channel lives no longer than a query. A channel of several processes has its memory in a block that
// they share: one fixed part, and a growing part for each process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/block_cache.hpp"
#include "memory/account.hpp"
#include "memory/carver.hpp"
#include "memory/shared_block.hpp"

namespace mgi::memory {

class Pool {
public:
    // `fixed` bytes now, up to `limit` more in segments of `segment` bytes. Throws
    // Error(OutOfMemory).
    Pool(std::uint64_t fixed, std::uint64_t segment, std::uint64_t limit,
         std::shared_ptr<Account> account);
    // One process' pool in a block that is shared; `fixed` and the two places are multiples of 4096.
    struct Shared {
        std::shared_ptr<SharedBlock> block;
        std::uint64_t begin = 0;   // where the fixed part lies in the block; reserved already
        std::uint64_t growth = 0;  // where this process' growing part does
        std::uint64_t charge = 0;  // what of the fixed part this process is charged
    };
    Pool(Shared shared, std::uint64_t fixed, std::uint64_t segment, std::uint64_t limit,
         std::shared_ptr<Account> account);
    ~Pool();
    Pool(Pool const&) = delete;
    Pool& operator=(Pool const&) = delete;

    [[nodiscard]] char* base() const { return base_; }
    // Every byte is zero until somebody writes it.
    [[nodiscard]] bool is_zero() const { return zero_; }
    [[nodiscard]] std::uint64_t fixed_bytes() const { return fixed_; }
    [[nodiscard]] std::uint64_t growth_limit() const { return segments_ * segment_; }

    // A segment of the growing part, its contents undefined; nothing when its limit, or the account's,
    // is reached. Whoever asks may find no use for it: a loan ends soon, by `settle` (the segment stays
    // taken until it is given) or `give_back`. While there are others, the limit has not been reached
    // for good. Thread-safe.
    struct Loan {
        std::optional<std::uint64_t> offset;
        bool others = false;
    };
    Loan borrow();
    void settle() noexcept;
    void give_back(std::uint64_t offset) noexcept;
    void give(std::uint64_t offset) noexcept;
    // Bytes of the growing part that are taken.
    [[nodiscard]] std::uint64_t taken_bytes() const;

private:
    std::optional<std::uint64_t> take_locked();
    void give_locked(std::uint64_t offset) noexcept;
    void charge();
    [[noreturn]] void fail(std::uint64_t bytes);

    std::uint64_t const fixed_;
    std::uint64_t const charge_;  // for the fixed part
    std::uint64_t const growth_;  // offset of the growing part
    std::uint64_t const segment_;
    std::uint64_t const segments_;  // of the growing part
    std::shared_ptr<Account> account_;
    std::shared_ptr<SharedBlock> shared_;  // else block_
    BlockCache::Block block_;
    char* base_ = nullptr;
    bool zero_ = true;
    mutable std::mutex mutex_;
    std::vector<std::uint64_t> free_;
    std::uint64_t fresh_ = 0;       // segments of the growing part that were taken and stay charged
    std::uint64_t most_fresh_ = 0;  // the most of them so far
    std::uint64_t loans_ = 0;
};

}  // namespace mgi::memory
