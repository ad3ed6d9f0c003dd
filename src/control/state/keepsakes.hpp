/// \file
/// What is kept for a while in case its owner asks again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace mgi::control {

/// Where there is no room for all of it, the owner who has the most gives up his oldest: so nobody loses
/// what is kept for him to one who has more kept.
template <class Item>
class Keepsakes {
public:
    void add(std::string const& owner, Item item, std::size_t size = 1) {
        std::uint64_t const age = next_++;
        Owner& of = owners_[owner];
        resize(owner, of, of.size + size);
        of.ages.insert(age);
        size_ += size;
        entries_.emplace(age, Entry{owner, std::move(item), size});
    }
    [[nodiscard]] bool empty() const { return entries_.empty(); }
    /// Of all together.
    [[nodiscard]] std::size_t size() const { return size_; }
    // The rest not where there is none.
    [[nodiscard]] Item const& oldest() const { return entries_.begin()->second.item; }
    Item drop_oldest() { return drop(entries_.begin()->first); }
    /// The oldest of the owner who has the most.
    Item drop_of_largest() { return drop(*owners_.at(by_size_.rbegin()->second).ages.begin()); }

private:
    struct Entry {
        std::string owner;
        Item item;
        std::size_t size = 0;
    };
    struct Owner {
        std::set<std::uint64_t> ages;
        std::size_t size = 0;
    };

    void resize(std::string const& owner, Owner& of, std::size_t size) {
        by_size_.erase({of.size, owner});
        of.size = size;
        by_size_.emplace(size, owner);
    }
    Item drop(std::uint64_t age) {
        auto const found = entries_.find(age);
        Entry entry = std::move(found->second);
        entries_.erase(found);
        auto const of = owners_.find(entry.owner);
        size_ -= entry.size;
        resize(entry.owner, of->second, of->second.size - entry.size);
        of->second.ages.erase(age);
        if (of->second.ages.empty()) {
            by_size_.erase({of->second.size, entry.owner});
            owners_.erase(of);
        }
        return std::move(entry.item);
    }

    std::map<std::uint64_t, Entry> entries_;  ///< the oldest first
    std::map<std::string, Owner> owners_;
    std::set<std::pair<std::size_t, std::string>> by_size_;
    std::size_t size_ = 0;
    std::uint64_t next_ = 0;
};

}  // namespace mgi::control
