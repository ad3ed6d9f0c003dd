#include "runtime/imported_memories.hpp"

#include <utility>

namespace mgi {

std::shared_ptr<gpu::ImportedMemory> ImportedMemories::take(
    std::uint64_t number, std::vector<int> const& gpus,
    std::shared_ptr<Descriptor const> connection,
    std::function<std::unique_ptr<gpu::ImportedMemory>()> const& import) {
    if (number == 0) return import();
    {
        std::lock_guard const lock(mutex_);
        for (Kept& one : kept_) {
            if (one.number != number || one.gpus != gpus) continue;
            one.connection = std::move(connection);
            return one.memory;
        }
    }
    std::shared_ptr<gpu::ImportedMemory> memory = import();
    std::list<Kept> over;  // dies behind the lock
    std::lock_guard const lock(mutex_);
    kept_.push_back({number, gpus, std::move(connection), memory});
    if (kept_.size() > kMost) over.splice(over.end(), kept_, kept_.begin());
    return memory;
}

void ImportedMemories::forget(gpu::ImportedMemory const& memory) noexcept {
    std::lock_guard const lock(mutex_);
    std::erase_if(kept_, [&](Kept const& one) { return one.memory.get() == &memory; });
}

template <class Goes>
void ImportedMemories::erase_unused(Goes const& goes) noexcept {
    std::list<Kept> gone;  // dies behind the lock: unmapping takes its time
    std::lock_guard const lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end();) {
        auto const one = at++;
        if (one->memory.use_count() == 1 && goes(*one)) gone.splice(gone.end(), kept_, one);
    }
}

void ImportedMemories::prune() noexcept {
    erase_unused([](Kept const& one) { return is_closed(*one.connection); });
}

void ImportedMemories::trim() noexcept {
    erase_unused([](Kept const&) { return true; });
}

}  // namespace mgi
