/// \file
/// A column's distinct values, numbered: a dictionary in the making.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/batch.hpp>

namespace mgi::arrow {

/// Numbers distinct values in the order in which they come.
class Distinct {
public:
    Distinct() : slots_(64, kFree) {}

    /// The value's number, and the value as it is kept, where it is new.
    std::pair<std::uint32_t, std::string_view*> find(std::string_view value);
    /// By number.
    [[nodiscard]] std::vector<std::string_view> const& values() const { return values_; }

private:
    static constexpr std::uint32_t kFree = ~std::uint32_t{0};

    void grow();

    std::vector<std::uint32_t> slots_;
    std::vector<std::size_t> hashes_;
    std::vector<std::string_view> values_;
};

/// A dictionary that batches of one column are exported with: it grows by the values that it lacks.
class Dictionary {
public:
    /// Has these values and no others, numbered in this order.
    void restart(std::vector<std::string> const& values);
    /// Of the values, how many there were when it started.
    [[nodiscard]] std::optional<std::size_t> first() const { return first_; }
    /// By number.
    [[nodiscard]] std::vector<std::string_view> const& values() const { return all_.values(); }
    /// The number of each row's value, 0 for a null, as integers of 1, 2, 4 or 8 bytes. What has more
    /// values than these count is to be written anew.
    void write(RecordBatch const& batch, std::size_t column, std::size_t width, void* out);

    /// The values as they are exported; of another number of rows they are not up to date.
    RecordBatch exported = {};
    /// Of columns whose numbers are known: the last one's dictionary, and what of it is exported; null where it cannot be.
    std::shared_ptr<RecordBatch const> known = nullptr;
    std::shared_ptr<RecordBatch const> known_exported = nullptr;

private:
    struct Part;

    std::uint32_t number_of(std::string_view value);
    template <class Index>
    void write_as(RecordBatch const& batch, std::size_t column, Index* out);
    template <class Index>
    void write_in_parts(RecordBatch const& batch, std::size_t column, Index* out);

    Distinct all_;
    std::deque<std::string> kept_;
    std::optional<std::size_t> first_;
};

}  // namespace mgi::arrow
