/// \file
/// Which values of a part are read of the rows of a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/arrow_nested_bytes.hpp"

namespace mgi::arrow {

/// For each row of a block, which values of an array stand in its sequence, in turn with others that are filled in.
class Pattern {
public:
    struct Run {
        std::int64_t take;
        std::int64_t fill;  ///< behind those
    };
    struct Row {
        Run const* first;
        Run const* last;
        [[nodiscard]] Run const* begin() const { return first; }
        [[nodiscard]] Run const* end() const { return last; }
    };

    /// Of one row of one value.
    static Pattern const& one() {
        static Pattern const pattern = [] {
            Pattern made;
            made.take(1);
            made.end_row();
            return made;
        }();
        return pattern;
    }

    void clear() {
        runs_.clear();
        rows_ = 0;
        taken_[0] = 0;
        taken_in_all_ = 0;
        filled_ = 0;
        firsts_ = 0;
        one_each_ = true;
    }
    /// In the row whose end is next, as `fill`.
    void take(std::int64_t count) {
        if (count == 0) return;
        if (runs_.size() != ends_[rows_] && runs_.back().fill == 0) {
            runs_.back().take += count;
        } else {
            runs_.add({count, 0});
        }
        taken_[rows_] += count;
    }
    void fill(std::int64_t count) {
        if (count == 0) return;
        if (runs_.size() == ends_[rows_]) runs_.add({0, 0});
        runs_.back().fill += count;
        filled_ += count;
    }
    void end_row() {
        one_each_ = one_each_ && taken_[rows_] == 1 && runs_.size() == ends_[rows_] + 1;
        if (one_each_) {
            std::int64_t const before = values() - runs_.back().fill;
            if (before < 64) firsts_ |= std::uint64_t{1} << before;
        }
        taken_in_all_ += taken_[rows_];
        ends_[++rows_] = runs_.size();
        taken_[rows_] = 0;
    }

    /// A row of so many that are taken.
    void add_row(std::int64_t count) {
        if (count != 0) runs_.add({count, 0});
        taken_[rows_] = count;
        end_row();
    }

    [[nodiscard]] std::size_t rows() const { return rows_; }
    [[nodiscard]] Row row(std::size_t row) const {
        return {runs_.data() + ends_[row], runs_.data() + ends_[row + 1]};
    }
    [[nodiscard]] std::int64_t taken(std::size_t row) const { return taken_[row]; }
    /// Of all rows.
    [[nodiscard]] std::int64_t filled() const { return filled_; }
    [[nodiscard]] std::int64_t values() const { return taken_in_all_ + filled_; }
    /// Whether one value is taken in each row, and others are filled in behind it only: by that row's only run.
    [[nodiscard]] bool one_each() const { return one_each_; }
    /// Whether besides a word has a bit for each value.
    [[nodiscard]] bool few_each() const { return one_each_ && values() <= 64; }
    /// Bits of those that are taken, where few_each().
    [[nodiscard]] std::uint64_t taken_bits() const { return firsts_; }
    /// Whether it is so many rows of one value each.
    [[nodiscard]] bool is_each(std::size_t rows) const {
        return rows_ == rows && one_each_ && filled_ == 0;
    }
    [[nodiscard]] Run const* all() const { return runs_.data(); }

    /// Calls `each(taken)` for every value of a row.
    template <class Each>
    void each(std::size_t row, Each const& each) const {
        for (Run const& run : this->row(row)) {
            for (std::int64_t i = 0; i < run.take; ++i) each(true);
            for (std::int64_t i = 0; i < run.fill; ++i) each(false);
        }
    }
    /// Calls `each(taken, count)` for values one behind another, of all rows.
    template <class Each>
    void each_run(Each const& each) const {
        if (filled_ == 0) return each(true, taken_in_all_);
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            each(true, all()[i].take);
            each(false, all()[i].fill);
        }
    }

private:
    Grown<Run> runs_;
    std::array<std::size_t, kBlockRows + 1> ends_{};
    std::array<std::int64_t, kBlockRows + 1> taken_{};
    std::size_t rows_ = 0;
    std::int64_t taken_in_all_ = 0;
    std::int64_t filled_ = 0;
    std::uint64_t firsts_ = 0;
    bool one_each_ = true;
};

}  // namespace mgi::arrow
