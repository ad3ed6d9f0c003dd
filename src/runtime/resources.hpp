// What a runtime's channels take their memory from.
#pragma once

#include <memory>

#include "gpu/reserve.hpp"
#include "memory/account.hpp"
#include "runtime/imported_memories.hpp"
#include "runtime/kept_tables.hpp"

namespace mgi {

struct Resources {
    std::shared_ptr<memory::Account> account;  // of the host's memory
    std::shared_ptr<gpu::Reserve> reserve;     // of GPUs', and pinned memory
    // Of channels that are gone; null: nothing is kept.
    std::shared_ptr<KeptTables> kept = nullptr;
    std::shared_ptr<ImportedMemories> imported = nullptr;
};

}  // namespace mgi
