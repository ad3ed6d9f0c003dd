/// \file
/// Rows for the benchmarks, made on the GPU, and the check of where they arrived. A row is `words`
/// values of 8 bytes, the first of them its key; it goes to destination
/// destination_of_hash(murmur3_mix(key)), as rows of an MGI channel do.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <vector>

#include <mgi/device/hash.hpp>

#include "memory.hpp"

namespace mgi::bench {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u32 kMaxWords = 8;
inline constexpr u32 kMaxDestinations = 64;

enum class Keys { Uniform, Zipf };
enum class Layout { Rows, Columns };

constexpr char const* name_of(Keys keys) {
    return keys == Keys::Uniform ? "uniform" : "zipf";
}
constexpr char const* name_of(Layout layout) {
    return layout == Layout::Rows ? "rows" : "columns";
}

MGI_HD inline u32 destination_of(u64 key, u32 destinations) {
    return device::destination_of_hash(device::murmur3_mix(key), destinations);
}

/// Rows in GPU memory: word w of row i is column[w][i * stride], stride 1 for columns, `words` for row
/// structs. A plain view; goes to kernels by value.
struct Table {
    u64* column[kMaxWords] = {};
    u64 rows = 0;
    u32 words = 0;
    u32 stride = 1;

    MGI_HD u64& at(u64 row, u32 word) const { return column[word][row * stride]; }
    /// Row structs only: the first row.
    MGI_HD u64* structs() const { return column[0]; }
    [[nodiscard]] u64 bytes() const { return rows * words * 8; }
};

/// A table and its memory: row structs of 16-byte alignment (8 bytes if `words` is odd), or columns,
/// each 256-byte aligned.
class TableBuffer {
public:
    TableBuffer(Layout layout, u64 rows, u32 words);
    [[nodiscard]] Table const& table() const { return table_; }
    [[nodiscard]] Layout layout() const { return layout_; }

private:
    Layout layout_;
    DeviceArray<u64> memory_;
    Table table_;
};

/// Fills a table. Keys are 64 random bits where `theta` is 0, else ranks 1 to `rows`, each with probability proportional to
/// rank^-theta, as bench/perf's (Zipf's law). The other words are random. Asynchronous.
void generate(Table const& table, double theta, cudaStream_t stream, u64 seed = 1);
inline void generate(Table const& table, Keys keys, cudaStream_t stream, u64 seed = 1) {
    generate(table, keys == Keys::Zipf ? 1.0 : 0.0, stream, seed);
}

/// What one destination gets; sums wrap.
struct Sums {
    u64 rows = 0;
    u64 keys = 0;  ///< sum of the keys
    u64 all = 0;   ///< sum of row_sum: sees words that parted from their row

    bool operator==(Sums const&) const = default;
    Sums& operator+=(Sums const& other) {
        rows += other.rows;
        keys += other.keys;
        all += other.all;
        return *this;
    }
};

/// Mixes all words of a row by place; add it up to check that rows arrived whole.
MGI_HD inline u64 row_sum(u64 sum, u64 word) {
    return device::murmur3_mix(sum + word);
}

/// Sums by destination, of rows wherever they stand.
std::vector<Sums> sums_of(Table const& table, u32 destinations, cudaStream_t stream);

/// Whether `output` has the rows of destination d at [begin[d], begin[d + 1]) for each d, whole and
/// once. `begin` is in host memory and has destinations + 1 entries.
bool is_partitioned(Table const& output, std::vector<u64> const& begin,
                    std::vector<Sums> const& expected, cudaStream_t stream);

}  // namespace mgi::bench
