// Which endpoint owns a row: the one that a channel which routes by the same keys would send it to. One source for
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
    // By row, of routing by ranges: the owner, which a kernel has found before (sort_ranges.hpp). Null: it follows from the
    // keys' hash.
    u16 const* ranges = nullptr;
};

// The rows of a part by their keys.
class OwnedRows {
public:
    MGI_HD OwnedRows(Owners const& owners, ColumnView const* columns, u64 rows)
        : owners_(owners),
          first_(columns[owners.keys[0]]),
          wide_(owners.layouts[owners.keys[0]].key >= KeyKind::Bytes) {
        batch_.columns = columns;
        batch_.count = rows;
    }

    // Calls `use(load)`, where `load(row)` is what `hash` wants of the first key: its value, of `load_word`, or the hash of a long
    // one; of ranges the owner.
    template <class Use>
    MGI_HD void with_first_keys(Use&& use) const {
        if (wide_ || owners_.ranges != nullptr) {
            return use([this](u64 row) {
                return owners_.ranges != nullptr ? u64{owners_.ranges[row]} : hash_of(0, row);
            });
        }
        device::ColumnLayout const& layout = owners_.layouts[owners_.keys[0]];
        with_words_of(first_, {layout.key, u8(layout.width)}, use);
    }
    // As a channel hashes the keys of a row, see device::hash_value; of ranges the owner. `word`: what was loaded of the first
    // key.
    [[nodiscard]] MGI_HD u64 hash(u64 row, u64 word) const {
        if (owners_.ranges != nullptr) return word;
        u64 hash = wide_                   ? word
                   : is_valid(first_, row) ? device::murmur3_mix(word)
                                           : device::kNullHash;
        for (u32 k = 1; k < owners_.key_count; ++k) {
            hash = device::hash_combine(hash, hash_of(k, row));
        }
        return hash;
    }
    [[nodiscard]] MGI_HD u32 owner(u64 row, u64 hash) const {
        if (owners_.ranges != nullptr) return u32(hash);
        if (!owners_.modulo) return device::destination_of_hash(hash, owners_.count);
        u32 const key = owners_.keys[0];
        return device::destination_of_modulo(batch_, owners_.layouts[key], key, row, owners_.count);
    }

private:
    [[nodiscard]] MGI_HD u64 hash_of(u32 k, u64 row) const {
        u32 const key = owners_.keys[k];
        device::ColumnLayout const& layout = owners_.layouts[key];
        if (layout.key == KeyKind::Text && batch_.valid(key, row)) {
            return on_gpu::hash_of(device::view_text(batch_.columns[key], row));
        }
        return device::hash_value(batch_, layout, key, row);
    }

    Owners const owners_;
    ColumnView const first_;
    bool const wide_;  // the first key's values are bytes or texts
    device::Batch batch_;
};

}  // namespace mgi::operators::on_gpu
