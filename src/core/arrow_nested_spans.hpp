/// \file
/// Which values of a part the rows of a block have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/arrow_nested_bytes.hpp"

namespace mgi::arrow {

/// Values [first, first + count) of an array, counted from its own first; count is not 0.
struct Span {
    std::int64_t first;
    std::int64_t count;
};

/// For each row of a block the values of a part that stand in its sequence.
class Spans {
public:
    struct Row {
        Span const* first;
        Span const* last;
        [[nodiscard]] Span const* begin() const { return first; }
        [[nodiscard]] Span const* end() const { return last; }
    };

    void clear() {
        spans_.clear();
        rows_ = 0;
        one_each_ = true;
        together_ = true;
    }
    /// To the row whose end is next.
    void add(std::int64_t first, std::int64_t count) {
        if (count == 0) return;
        bool const goes_on =
            spans_.size() != ends_[rows_] && spans_.back().first + spans_.back().count == first;
        if (goes_on) {
            spans_.back().count += count;
        } else {
            spans_.add({first, count});
        }
    }
    void end_row() {
        one_each_ = one_each_ && spans_.size() == ends_[rows_] + 1 && spans_.back().count == 1;
        together_ =
            together_ && one_each_ && spans_.back().first == all()[0].first + std::int64_t(rows_);
        ends_[++rows_] = spans_.size();
    }
    /// A row that has no other.
    void add_row(std::int64_t first, std::int64_t count) {
        if (count != 0) spans_.add({first, count});
        end_row();
    }
    /// One row of one value.
    Spans const& set(std::int64_t value) {
        clear();
        add_row(value, 1);
        return *this;
    }

    [[nodiscard]] std::size_t rows() const { return rows_; }
    [[nodiscard]] Row row(std::size_t row) const {
        return {spans_.data() + ends_[row], spans_.data() + ends_[row + 1]};
    }
    [[nodiscard]] std::int64_t count(std::size_t row) const {
        std::int64_t sum = 0;
        for (Span const& span : this->row(row)) sum += span.count;
        return sum;
    }
    /// Whether each row has a single value: that of its only span.
    [[nodiscard]] bool one_each() const { return one_each_; }
    /// Whether besides these values come one behind another.
    [[nodiscard]] bool together() const { return together_; }
    [[nodiscard]] Span const* all() const { return spans_.data(); }

    /// Calls `each(value)` for all of a row.
    template <class Each>
    void each(std::size_t row, Each const& each) const {
        for (Span const& span : this->row(row)) {
            for (std::int64_t i = span.first; i < span.first + span.count; ++i) each(i);
        }
    }

private:
    Grown<Span> spans_;
    std::array<std::size_t, kBlockRows + 1> ends_{};
    std::size_t rows_ = 0;
    bool one_each_ = true;
    bool together_ = true;
};

}  // namespace mgi::arrow
