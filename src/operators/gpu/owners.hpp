// Which endpoint owns a row: the one that a channel which partitions by the same keys would send it to. One source for
// g++ and nvcc.
#pragma once

#include "operators/gpu/columns.hpp"

namespace mgi::operators::on_gpu {

struct Owners {
    device::ColumnLayout const* layouts = nullptr;  // by column
    u32 const* keys = nullptr;                      // columns
    u32 key_count = 0;
    bool modulo = false;
    u32 count = 0;  // of endpoints

    [[nodiscard]] MGI_HD u32 first_key() const { return keys[0]; }
    [[nodiscard]] MGI_HD ValueKind first_kind() const {
        return {layouts[keys[0]].key, u8(layouts[keys[0]].width)};
    }
    // As a channel hashes the keys of a row, see device::hash_value. `word`: the first key's value, of `load_word`;
    // `validity`: that column's.
    [[nodiscard]] MGI_HD u64 hash(device::Batch const& batch, u8 const* validity, u64 row,
                                  u64 word) const {
        bool const valid = validity == nullptr || is_valid(batch.columns[keys[0]], row);
        u64 hash = valid ? device::murmur3_mix(word) : device::kNullHash;
        for (u32 k = 1; k < key_count; ++k) {
            hash = device::hash_combine(hash,
                                        device::hash_value(batch, layouts[keys[k]], keys[k], row));
        }
        return hash;
    }
    [[nodiscard]] MGI_HD u32 owner(device::Batch const& batch, u64 row, u64 hash) const {
        if (modulo) {
            return device::destination_of_modulo(batch, layouts[keys[0]], keys[0], row, count);
        }
        return device::destination_of_hash(hash, count);
    }
};

}  // namespace mgi::operators::on_gpu
