#include "core/arrow_distinct.hpp"

#include <algorithm>
#include <functional>

#include "core/arrow_values.hpp"
#include "core/parallel.hpp"

namespace mgi::arrow {
namespace {

/// Fewer rows are not worth a thread.
constexpr std::int64_t kLeastOfPart = 1 << 16;

}  // namespace

/// Rows that one thread numbers by itself.
struct Dictionary::Part {
    std::int64_t first = 0;
    std::int64_t rows = 0;
    Distinct distinct = {};
    std::vector<std::uint32_t> numbers = {};  ///< by row, 0 for a null
    std::vector<std::uint32_t> in_all = {};   ///< by that number
};

std::pair<std::uint32_t, std::string_view*> Distinct::find(std::string_view value) {
    std::size_t const hash = std::hash<std::string_view>{}(value);
    std::size_t at = hash & (slots_.size() - 1);
    for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1)) {
        std::uint32_t const number = slots_[at];
        if (hashes_[number] == hash && values_[number] == value) return {number, nullptr};
    }
    auto const number = std::uint32_t(values_.size());
    slots_[at] = number;
    values_.push_back(value);
    hashes_.push_back(hash);
    if (2 * values_.size() > slots_.size()) grow();
    return {number, &values_.back()};
}

void Distinct::grow() {
    slots_.assign(4 * slots_.size(), kFree);
    for (std::size_t number = 0; number < hashes_.size(); ++number) {
        std::size_t at = hashes_[number] & (slots_.size() - 1);
        while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
        slots_[at] = std::uint32_t(number);
    }
}

void Dictionary::restart(std::vector<std::string> const& values) {
    all_ = Distinct();
    kept_.clear();
    exported = {};
    for (std::string const& value : values) static_cast<void>(number_of(value));
    first_ = all_.values().size();
}

std::uint32_t Dictionary::number_of(std::string_view value) {
    auto const [number, kept] = all_.find(value);
    if (kept != nullptr) *kept = kept_.emplace_back(value);
    return number;
}

template <class Index>
void Dictionary::write_as(RecordBatch const& batch, std::size_t column, Index* out) {
    if (batch.rows > kLeastOfPart) return write_in_parts(batch, column, out);
    Values const values(batch, column);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        out[row] = values.is_valid(row) ? Index(number_of(values.at(row))) : Index(0);
    }
}

template <class Index>
void Dictionary::write_in_parts(RecordBatch const& batch, std::size_t column, Index* out) {
    auto const threads = std::int64_t(all_threads());
    std::int64_t const most = std::max(kLeastOfPart, (batch.rows + threads - 1) / threads);
    std::vector<Part> parts;
    for (std::int64_t first = 0; first < batch.rows; first += most) {
        parts.push_back({first, std::min(most, batch.rows - first)});
    }
    in_parallel(parts.size(), all_threads(), [&](std::size_t p, std::size_t) {
        Part& part = parts[p];
        Values const values(batch, column);
        part.numbers.resize(std::size_t(part.rows));
        for (std::int64_t i = 0; i < part.rows; ++i) {
            if (!values.is_valid(part.first + i)) continue;
            part.numbers[std::size_t(i)] = part.distinct.find(values.at(part.first + i)).first;
        }
    });
    for (Part& part : parts) {
        for (std::string_view const value : part.distinct.values()) {
            part.in_all.push_back(number_of(value));
        }
        if (part.in_all.empty()) part.in_all.push_back(0);  // of nulls alone
    }
    in_parallel(parts.size(), all_threads(), [&](std::size_t p, std::size_t) {
        Part const& part = parts[p];
        for (std::size_t i = 0; i < part.numbers.size(); ++i) {
            out[part.first + std::int64_t(i)] = Index(part.in_all[part.numbers[i]]);
        }
    });
}

void Dictionary::write(RecordBatch const& batch, std::size_t column, std::size_t width, void* out) {
    switch (width) {
        case 1: return write_as(batch, column, static_cast<std::uint8_t*>(out));
        case 2: return write_as(batch, column, static_cast<std::uint16_t*>(out));
        case 4: return write_as(batch, column, static_cast<std::uint32_t*>(out));
        default: return write_as(batch, column, static_cast<std::uint64_t*>(out));
    }
}

}  // namespace mgi::arrow
