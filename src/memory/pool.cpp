#include "memory/pool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

#include "core/poison.hpp"
#include "core/process_limits.hpp"
#include "core/text.hpp"

namespace mgi::memory {

Pool::Pool(std::uint64_t fixed, std::uint64_t segment, std::uint64_t limit,
           std::shared_ptr<Account> account)
    : fixed_((fixed + 4095) / 4096 * 4096),
      charge_(fixed_),
      growth_(fixed_),
      segment_(segment),
      segments_(segment == 0 ? 0 : limit / segment),
      account_(std::move(account)) {
    // Made at its first use, for which there may be no memory: before anything is taken.
    BlockCache& blocks = BlockCache::shared();
    charge();
    // Pages come when they are first touched, so room for all segments costs nothing.
    std::uint64_t const bytes = fixed_ + segments_ * segment_;
    block_ = blocks.take(bytes);
    if (block_.data == nullptr) fail(bytes);
    base_ = block_.data;
    zero_ = block_.zero;
}

Pool::Pool(Shared shared, std::uint64_t fixed, std::uint64_t segment, std::uint64_t limit,
           std::shared_ptr<Account> account)
    : fixed_(fixed),
      charge_(shared.charge),
      growth_(shared.growth - shared.begin),
      segment_(segment),
      segments_(segment == 0 ? 0 : limit / segment),
      account_(std::move(account)),
      shared_(std::move(shared.block)) {
    charge();
    base_ = shared_->data() + shared.begin;
}

void Pool::charge() {
    if (account_->take(charge_)) return;
    throw Error(ErrorCode::OutOfMemory, "a channel's pool of " + bytes_text(charge_) +
                                            " is more than the " + bytes_text(account_->left()) +
                                            " left of the memory limit");
}

void Pool::fail(std::uint64_t bytes) {
    account_->give(charge_);
    int const code = errno;
    throw Error(ErrorCode::OutOfMemory, "a channel's pool with room for what is received: " +
                                            no_addresses_text(bytes, code) +
                                            ", lower receive_limit, or have fewer endpoints");
}

Pool::~Pool() {
    if (shared_ != nullptr) {
        // Other processes have the block still, and in this one another runtime may.
        for (std::uint64_t const offset : free_) unpoison(base_ + offset, segment_);
        unpoison(base_ + growth_ + fresh_ * segment_, (most_fresh_ - fresh_) * segment_);
    } else {
        block_.used = std::max<std::size_t>(block_.used, fixed_ + most_fresh_ * segment_);
        BlockCache::shared().give(block_);
    }
    account_->give(charge_ + fresh_ * segment_);
}

Pool::Loan Pool::borrow() {
    std::lock_guard const lock(mutex_);
    bool const others = loans_ != 0;
    auto const offset = take_locked();
    if (offset) ++loans_;
    return {offset, others};
}

void Pool::settle() noexcept {
    std::lock_guard const lock(mutex_);
    MGI_ASSERT(loans_ != 0, fresh_);
    --loans_;
}

void Pool::give_back(std::uint64_t offset) noexcept {
    std::lock_guard const lock(mutex_);
    MGI_ASSERT(loans_ != 0, offset, fresh_);
    --loans_;
    if (offset == growth_ + segment_ * (fresh_ - 1)) {
        // As if it had never been taken: other channels may need what it was charged.
        poison(base_ + offset, segment_);
        MGI_ASSERT(free_.size() < fresh_, free_.size(), fresh_);
        --fresh_;
        account_->give(segment_);
        return;
    }
    give_locked(offset);
}

void Pool::give(std::uint64_t offset) noexcept {
    std::lock_guard const lock(mutex_);
    give_locked(offset);
}

std::optional<std::uint64_t> Pool::take_locked() {
    if (!free_.empty()) {
        std::uint64_t const offset = free_.back();
        free_.pop_back();
        unpoison(base_ + offset, segment_);
        return offset;
    }
    MGI_ASSERT(fresh_ <= segments_, fresh_, segments_);
    if (fresh_ == segments_) return std::nullopt;
    // Room for every segment there is, so that giving back cannot fail.
    if (free_.capacity() <= fresh_) free_.reserve(2 * fresh_ + 16);
    if (!account_->take(segment_)) return std::nullopt;
    std::uint64_t const offset = growth_ + segment_ * fresh_;
    if (shared_ != nullptr &&
        !shared_->reserve(std::uint64_t(base_ - shared_->data()) + offset, segment_)) {
        account_->give(segment_);
        return std::nullopt;
    }
    ++fresh_;
    most_fresh_ = std::max(most_fresh_, fresh_);
    unpoison(base_ + offset, segment_);
    return offset;
}

void Pool::give_locked(std::uint64_t offset) noexcept {
    poison(base_ + offset, segment_);
    free_.push_back(offset);
}

std::uint64_t Pool::taken_bytes() const {
    std::lock_guard const lock(mutex_);
    return (fresh_ - free_.size()) * segment_;
}

}  // namespace mgi::memory
