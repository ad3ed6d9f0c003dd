/// \file
/// A cache that holds so many bytes and drops what was not used for longest.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace mgi::planner {

/// Values should be cheap to copy (shared pointers): one that is dropped lives on with who uses it.
/// Not thread-safe.
template <class Key, class Value, class Hash>
class LruCache {
public:
    explicit LruCache(std::size_t limit) : limit_(limit) {}

    /// Null where there is none. Valid until the next `put` or `resize`.
    Value* find(Key const& key) {
        auto const found = by_key_.find(&key);
        if (found == by_key_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &entries_.front().value;
    }
    /// The key must be new. What was put last stays, whatever its size.
    void put(Key key, Value value, std::size_t bytes) {
        entries_.push_front({std::move(key), std::move(value), bytes});
        by_key_.emplace(&entries_.front().key, entries_.begin());
        bytes_ += bytes;
        drop();
    }
    /// The value of a key, if it is still here, has grown or shrunk.
    void resize(Key const& key, std::size_t bytes) {
        auto const found = by_key_.find(&key);
        if (found == by_key_.end()) return;
        bytes_ += bytes - found->second->bytes;
        found->second->bytes = bytes;
        entries_.splice(entries_.begin(), entries_, found->second);
        drop();
    }
    void clear() {
        by_key_.clear();
        entries_.clear();
        bytes_ = 0;
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Key key;
        Value value;
        std::size_t bytes;
    };
    // Keys may be large: the index points at the entries' own.
    struct HashAt {
        std::size_t operator()(Key const* key) const { return Hash{}(*key); }
    };
    struct EqualAt {
        bool operator()(Key const* a, Key const* b) const { return *a == *b; }
    };
    void drop() {
        while (bytes_ > limit_ && entries_.size() > 1) {
            bytes_ -= entries_.back().bytes;
            by_key_.erase(&entries_.back().key);
            entries_.pop_back();
        }
    }

    std::size_t limit_;
    std::size_t bytes_ = 0;
    std::list<Entry> entries_;  ///< most recently used first
    std::unordered_map<Key const*, typename std::list<Entry>::iterator, HashAt, EqualAt> by_key_;
};

}  // namespace mgi::planner
