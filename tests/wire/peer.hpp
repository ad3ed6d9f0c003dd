/// \file
/// An end of a link over sockets: a source and a destination of one flow, which checks every byte.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mover/link/shared_link.hpp"

namespace mgi::test {

using mover::link::Key;
using mover::link::LinkOwner;
using mover::link::Secret;
using mover::link::SharedLink;
using mover::link::Word;

inline char byte_of(std::uint64_t sequence, std::size_t at) {
    return char((sequence * 0x9e3779b97f4a7c15ULL + at * 0xbf58476d1ce4e5b9ULL) >> 56);
}

/// Takes segments of one flow into a pool, checks them, and gives credits back; sends as many.
class Peer final : public LinkOwner {
public:
    static constexpr std::uint64_t kPool = 8;

    Peer(std::uint64_t segments, std::size_t bytes) : segments_(segments), bytes_(bytes) {
        for (auto& memory : targets_) memory.resize(bytes);
        for (auto& memory : sources_) memory.resize(bytes);
    }

    /// Sends all segments, from a thread that is not the link's.
    void send_all(SharedLink& by) {
        for (std::uint64_t sequence = 0; sequence < segments_; ++sequence) {
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] {
                    return failed_ || (sequence < credits_ && !flying_[sequence % kPool]);
                });
                if (failed_) return;
                flying_[sequence % kPool] = true;
            }
            auto& memory = sources_[sequence % kPool];
            for (std::size_t i = 0; i < bytes_; ++i) memory[i] = byte_of(sequence, i);
            mover::link::Transfer transfer;
            transfer.key = {5, 1, 2, sequence};
            transfer.tag = sequence;
            transfer.token = sequence;
            transfer.pieces = {{memory.data(), bytes_ / 3},
                               {memory.data() + bytes_ / 3, bytes_ - bytes_ / 3}};
            by.start(std::move(transfer));
        }
    }
    /// False: it has failed.
    bool wait_for_all() {
        std::unique_lock lock(mutex_);
        changed_.wait(
            lock, [&] { return failed_ || (arrived_ == segments_ && acknowledged_ == segments_); });
        return !failed_;
    }
    void wait_for_failure() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return failed_; });
    }
    std::string why() {
        std::lock_guard const lock(mutex_);
        return why_;
    }
    std::uint64_t wrong() {
        std::lock_guard const lock(mutex_);
        return wrong_;
    }
    std::atomic<SharedLink*> link = nullptr;

    bool target(Key const& key, std::uint64_t, std::uint64_t bytes,
                std::vector<iovec>& pieces) override {
        if (key.channel != 5 || bytes != bytes_) return false;
        auto& memory = targets_[key.sequence % kPool];
        pieces = {{memory.data(), 7}, {memory.data() + 7, bytes - 7}};
        return true;
    }
    void arrived(Key const& key, std::uint64_t tag) override {
        std::uint64_t wrong = tag != key.sequence ? 1 : 0;
        auto& memory = targets_[key.sequence % kPool];
        for (std::size_t i = 0; i < bytes_; ++i) wrong += memory[i] != byte_of(key.sequence, i);
        {
            std::lock_guard const lock(mutex_);
            wrong_ += wrong;
            ++arrived_;
        }
        changed_.notify_all();
        link.load()->say({5, 1, 1, 2, key.sequence + 1 + kPool, {}});
    }
    void acknowledged(std::uint64_t token) override {
        {
            std::lock_guard const lock(mutex_);
            flying_[token % kPool] = false;
            ++acknowledged_;
        }
        changed_.notify_all();
    }
    void word(Word const& word) override {
        {
            std::lock_guard const lock(mutex_);
            // Segments of one flow arrive in any order, their words in sequence of the arrival.
            credits_ = std::max(credits_, word.value);
        }
        changed_.notify_all();
    }
    void failed(ErrorCode, std::string const& why) override {
        {
            std::lock_guard const lock(mutex_);
            failed_ = true;
            why_ = why;
        }
        changed_.notify_all();
    }

private:
    std::uint64_t const segments_;
    std::size_t const bytes_;
    std::array<std::vector<char>, kPool> targets_;
    std::array<std::vector<char>, kPool> sources_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<bool, kPool> flying_{};
    std::uint64_t credits_ = kPool;
    std::uint64_t arrived_ = 0;
    std::uint64_t acknowledged_ = 0;
    std::uint64_t wrong_ = 0;
    bool failed_ = false;
    std::string why_;
};

/// Both send all that they have, at the same time.
inline void send_both_ways(Peer& one, SharedLink& to, Peer& two, SharedLink& from) {
    std::thread second([&] { two.send_all(from); });
    one.send_all(to);
    second.join();
}

inline Secret secret_of(std::uint8_t byte) {
    Secret secret;
    secret.fill(byte);
    return secret;
}

}  // namespace mgi::test
