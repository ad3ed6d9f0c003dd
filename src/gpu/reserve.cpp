#include "gpu/reserve.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::gpu {

namespace {

// Whether memory of a size serves for less, and little of it is wasted.
bool fits(std::uint64_t size, std::uint64_t bytes) {
    return size >= bytes && size - bytes <= bytes / 8;
}

// Memory that is unmapped is not to be written any more: unmapping does not wait for that.
template <class Shelf>
void await_zeroes(Shelf const& shelf) noexcept {
    for (auto const& one : shelf) {
        try {
            if (one.zeroes != nullptr) one.zeroes->wait("zero memory of a channel before");
        } catch (std::exception const&) {
            // The GPU's context is lost, and its memory with it.
        }
    }
}

}  // namespace

template <class T>
std::shared_ptr<T> Reserve::lend(std::unique_ptr<T> one) {
    return {one.release(), [reserve = shared_from_this()](T* back) {
                std::unique_ptr<T> came(back);
                try {
                    reserve->give(std::move(came));
                } catch (std::exception const&) {
                    // What fails is not used again.
                }
            }};
}

template <class T, class Serves>
Reserve::Kept<T> Reserve::find(Shelf<T>& shelf, int gpu, std::uint64_t bytes,
                               Serves const& serves) {
    std::lock_guard const lock(mutex_);
    auto const found = std::find_if(shelf.begin(), shelf.end(), [&](Kept<T> const& one) {
        return one.what->gpu() == gpu && fits(one.what->bytes(), bytes) && serves(*one.what);
    });
    if (found == shelf.end()) return {};
    Kept<T> one = std::move(*found);
    shelf.erase(found);
    return one;
}

template <class T>
void Reserve::keep(Shelf<T>& shelf, std::uint64_t most, Kept<T> one) {
    Shelf<T> over;  // dies behind the lock
    int const gpu = one.what->gpu();
    std::unique_lock lock(mutex_);
    shelf.push_back(std::move(one));
    std::uint64_t all = 0;
    std::size_t pieces = 0;
    for (Kept<T> const& kept : shelf) {
        if (kept.what->gpu() != gpu) continue;
        all += kept.what->bytes();
        ++pieces;
    }
    for (auto at = shelf.begin(); (all > most || pieces > kMostPieces) && at != shelf.end();) {
        if (at->what->gpu() != gpu) {
            ++at;
            continue;
        }
        all -= at->what->bytes();
        --pieces;
        over.push_back(std::move(*at));
        at = shelf.erase(at);
    }
    lock.unlock();
    await_zeroes(over);
}

std::unique_ptr<OwnStream> Reserve::find_stream(int gpu) {
    {
        std::lock_guard const lock(mutex_);
        auto const found = std::find_if(streams_.begin(), streams_.end(),
                                        [&](auto const& kept) { return kept->gpu() == gpu; });
        if (found != streams_.end()) {
            std::unique_ptr<OwnStream> stream = std::move(*found);
            streams_.erase(found);
            return stream;
        }
    }
    return std::make_unique<OwnStream>(gpu);
}

void Reserve::make_streams(int gpu, std::size_t count) {
    std::size_t there = 0;
    {
        std::lock_guard const lock(mutex_);
        for (auto const& kept : streams_) there += kept->gpu() == gpu ? 1 : 0;
    }
    for (; there < count; ++there) {
        auto made = std::make_unique<OwnStream>(gpu);
        std::lock_guard const lock(mutex_);
        streams_.push_back(std::move(made));
    }
}

std::shared_ptr<OwnStream> Reserve::stream(int gpu) {
    return lend(find_stream(gpu));
}

std::shared_ptr<DeviceMemory> Reserve::memory(int gpu, std::uint64_t bytes, Shared shared) {
    if (shared == Shared::Not && allocator_ != nullptr) {
        return lend(make([&] { return provided(gpu, bytes); }));
    }
    if (shared != Shared::Not) settle();
    Kept<DeviceMemory> kept =
        find(memories_, gpu, bytes, [&](auto const& one) { return one.shared() == shared; });
    if (kept.what != nullptr) {
        kept.zeroes->wait("zero memory of a channel before");
        give(std::move(kept.zeroes));
        return lend(std::move(kept.what));
    }
    return lend(make([&] { return std::make_unique<DeviceMemory>(gpu, bytes, shared); }));
}

std::unique_ptr<DeviceMemory> Reserve::provided(int gpu, std::uint64_t bytes) {
    auto zeroes = find_stream(gpu);
    auto memory = std::make_unique<DeviceMemory>(allocator_, bytes, *zeroes);
    give(std::move(zeroes));
    return memory;
}

std::shared_ptr<PinnedMemory> Reserve::pinned(int gpu, std::uint64_t bytes) {
    Kept<PinnedMemory> kept = find(pinned_, gpu, bytes, [](auto const&) { return true; });
    if (kept.what != nullptr) return lend(std::move(kept.what));
    return lend(make([&] { return std::make_unique<PinnedMemory>(gpu, bytes); }));
}

void Reserve::give(std::unique_ptr<OwnStream> stream) {
    if (!stream->is_done()) return;
    std::lock_guard const lock(mutex_);
    streams_.push_back(std::move(stream));
}

bool Reserve::keeps(DeviceMemory const& memory) const {
    return memory.bytes() != 0 && memory.bytes() <= most_ && !memory.abandoned() &&
           memory.shared() != Shared::Plainly && !memory.is_provided();
}

void Reserve::give(std::unique_ptr<DeviceMemory> memory) {
    if (!keeps(*memory)) return;
    Use const use = memory->use();
    if (use == Use::Over) return keep_zeroed(std::move(memory));
    if (use == Use::OnGoing) keep(used_by_others_, most_, {std::move(memory), nullptr});
}

void Reserve::keep_zeroed(std::unique_ptr<DeviceMemory> memory) {
    auto zeroes = find_stream(memory->gpu());
    memory->zero(*zeroes);
    keep(memories_, most_, {std::move(memory), std::move(zeroes)});
}

// Looks who of the others has done with what they used.
void Reserve::settle() {
    Shelf<DeviceMemory> all;
    {
        std::lock_guard const lock(mutex_);
        all.swap(used_by_others_);
    }
    for (Kept<DeviceMemory>& one : all) {
        try {
            give(std::move(one.what));
        } catch (std::exception const&) {
            // What fails is not used again.
        }
    }
}

void Reserve::give(std::unique_ptr<PinnedMemory> memory) {
    if (memory->bytes() == 0 || memory->bytes() > most_pinned_ || memory->abandoned()) return;
    keep(pinned_, most_pinned_, {std::move(memory), nullptr});
}

void Reserve::trim() noexcept {
    if (trim_others_) trim_others_();
    Shelf<DeviceMemory> memories;  // die behind the lock
    Shelf<DeviceMemory> used_by_others;
    Shelf<PinnedMemory> pinned;
    {
        std::lock_guard const lock(mutex_);
        memories.swap(memories_);
        used_by_others.swap(used_by_others_);
        pinned.swap(pinned_);
    }
    await_zeroes(memories);
}

}  // namespace mgi::gpu
