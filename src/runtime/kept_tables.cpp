#include "runtime/kept_tables.hpp"

#include <algorithm>
#include <utility>

namespace mgi {

namespace {

std::uint64_t bytes_of(BuiltTables const& tables) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < tables.pinned.size(); ++i) bytes += tables.images.bytes(i);
    return bytes;
}

}  // namespace

TableSource table_source(ChannelSpec spec, Plan plan) {
    spec.options.name.clear();
    plan.tables.clear();
    plan.pool_bytes = 0;
    return {std::move(spec), std::move(plan), {}, {}, {}};
}

std::unique_ptr<BuiltTables> KeptTables::find(TableSource const& source) {
    std::lock_guard const lock(mutex_);
    auto const found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](auto const& tables) { return tables->source == source; });
    if (found == kept_.end()) return nullptr;
    auto tables = std::move(*found);
    kept_.erase(found);
    return tables;
}

void KeptTables::keep(std::unique_ptr<BuiltTables> tables) {
    std::vector<std::unique_ptr<BuiltTables>> over;  // die behind the lock
    std::lock_guard const lock(mutex_);
    kept_.push_back(std::move(tables));
    std::uint64_t all = 0;
    for (auto const& one : kept_) all += bytes_of(*one);
    while (all > most_) {
        all -= bytes_of(*kept_.front());
        over.push_back(std::move(kept_.front()));
        kept_.erase(kept_.begin());
    }
}

void KeptTables::trim() noexcept {
    std::vector<std::unique_ptr<BuiltTables>> kept;  // die behind the lock
    std::lock_guard const lock(mutex_);
    kept.swap(kept_);
}

}  // namespace mgi
