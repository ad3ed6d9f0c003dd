/// \file
/// Nested values' bytes as Arrow's arrays.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>

#include "core/arrow_distinct.hpp"
#include "core/arrow_export.hpp"
#include "core/arrow_holders.hpp"
#include "core/arrow_nested.hpp"
#include "core/arrow_nested_flat_reader.hpp"
#include "core/arrow_nested_parts.hpp"
#include "core/arrow_nested_pattern.hpp"
#include "core/arrow_read_column.hpp"

namespace mgi::arrow {

/// Builds an array out of sequences, and by its children those of its parts: out of those of a block's rows together.
class NestedReader : FlatReader {
public:
    NestedReader(Nested const& type, std::string const& name) : FlatReader(type, name) {
        children_.reserve(type.children.size());
        for (Nested const& child : type.children) children_.emplace_back(child, name);
        bool const wraps =
            type.kind == Kind::Struct || type.kind == Kind::Dictionary || type.kind == Kind::Runs;
        takes_bytes_ = !wraps && type.kind != Kind::Null;
        for (NestedReader const& child : children_) {
            takes_bytes_ = takes_bytes_ || (wraps && child.takes_bytes_);
        }
        plain_size_ = type.kind == Kind::Fixed ? type.width : 0;
        if (type.kind == Kind::Struct) find_plain_size();
    }

    /// Bytes of what there is, those of bits and long views aside.
    [[nodiscard]] std::size_t size() const {
        std::size_t sum = values_.size() + offsets_.size() + views_.size();
        for (NestedReader const& child : children_) sum += child.size();
        return sum;
    }
    /// Has room for so many times as much.
    void reserve(double times) {
        values_.reserve_times(times);
        offsets_.reserve_times(times);
        views_.reserve_times(times);
        for (NestedReader& child : children_) child.reserve(times);
    }

    /// Appends values out of rows' sequences, and between them such as `fill` appends.
    void sequence(Pattern const& rows, Cursor* in) {
        if (waits_ != 0) --waits_;
        switch (type_.kind) {
            case Kind::Null: return add_of_no_bytes(rows.values());
            case Kind::Dictionary: return indices(rows, in);
            case Kind::Runs: return runs(rows, in);
            case Kind::SparseUnion:
            case Kind::DenseUnion: return unions(rows, in);
            case Kind::Fixed: return fixed(rows, in);
            default: break;
        }
        body(*valid_ones(rows, in), in);
    }

    /// Appends valid values out of rows' bodies, and between them nulls.
    void bodies(Pattern const& rows, Cursor* in) {
        if (rows.filled() != 0) check_has_nulls();
        if (nested_has_validity(type_.kind)) validity_.add_few(rows.taken_bits(), rows.values());
        body(rows, in);
    }

    /// Bytes of a body of fixed widths that has no null; 0: there is no such.
    [[nodiscard]] std::size_t plain_size() const { return plain_size_; }
    /// Appends values whose bodies have so many bytes, where none has a null; returns whether it did.
    bool plain_bodies(Pattern const& rows, std::byte const* const* from) {
        if (waits_ != 0) {
            --waits_;
        } else if (is_plain_body(rows.rows(), from, 0)) {
            plain_body(rows, from, 0);
            return true;
        } else {
            waits_ = kWaits;
        }
        return false;
    }

    /// Appends nulls, where there can be some.
    void nulls(std::int64_t count) {
        if (count == 0) return;
        check_has_nulls();
        if (nested_has_validity(type_.kind)) validity_.add(false, count);
        empty(count);
    }

    /// The array of all values, which keeps `owner`, whose this is.
    ArrowArray finish(std::shared_ptr<void const> const& owner) {
        auto holder = std::make_unique<ArrayHolder>();
        holder->owner = owner;
        if (nested_has_validity(type_.kind)) holder->buffers.push_back(validity_.bits());
        add_buffers(*holder);
        if (type_.kind == Kind::Dictionary) {
            holder->dictionary = children_[0].finish(owner);
        } else {
            bool const runs = type_.kind == Kind::Runs;
            make_children(*holder, children_.size() + (runs ? 1 : 0));
            if (runs) holder->child_structs[0] = run_ends(owner);
            for (std::size_t i = 0; i < children_.size(); ++i) {
                holder->child_structs[i + (runs ? 1 : 0)] = children_[i].finish(owner);
            }
        }
        ArrowArray array = seal(std::move(holder));
        array.length = count_;
        array.null_count = type_.kind == Kind::Null ? count_ : validity_.nulls();
        return array;
    }

private:
    void check_has_nulls() const {
        if (type_.is_union() && (children_.empty() || !can_be_null(filled_child()))) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + name_ + "': none of the union's types can be null");
        }
    }

    /// For values that are null or not there: nulls where a schema allows them.
    void fill(std::int64_t count) {
        if (nested_has_validity(type_.kind)) validity_.add(!fills_nulls(), count);
        empty(count);
    }
    void empty(std::int64_t count) {
        switch (type_.kind) {
            case Kind::Null: return add_of_no_bytes(count);
            case Kind::Struct:
                for (NestedReader& child : children_) child.fill(count);
                break;
            case Kind::Bool: bits_.add(false, count); break;
            case Kind::Fixed: values_.add_zeros(bytes_of(count, type_.width)); break;
            case Kind::Text:
                for (std::int64_t i = 0; i < count; ++i) add_text(nullptr, 0);
                break;
            case Kind::List:
                for (std::int64_t i = 0; i < count; ++i) add_offset(0);
                break;
            case Kind::FixedList: children_[0].fill(elements_of(count)); break;
            case Kind::Dictionary: return add_index(0, count);
            case Kind::Runs:
                for (std::int64_t i = 0; i < count; ++i) add_run({}, false);
                return;
            case Kind::SparseUnion:
            case Kind::DenseUnion:
                for (std::int64_t i = 0; i < count; ++i) add_union_fill();
                return;
        }
        count_ += count;
    }

    /// The elements of so many lists of a fixed size.
    [[nodiscard]] std::int64_t elements_of(std::int64_t lists) const {
        auto const width = std::int64_t(type_.width);
        if (width != 0 && lists > kMostRows / width) too_many("elements than there can be");
        return lists * width;
    }

    void body(Pattern const& rows, Cursor* in) {
        switch (type_.kind) {
            case Kind::Bool: bools(rows, in); break;
            case Kind::Text: texts(rows, in); break;
            case Kind::List: lists(rows, in); break;
            case Kind::FixedList: fixed_lists(rows, in); break;
            case Kind::Struct:
                structs(rows, in);
                if (children_.empty()) return add_of_no_bytes(rows.values());
                break;
            case Kind::SparseUnion:
            case Kind::DenseUnion: return unions(rows, in);
            default: Cursor::refuse();
        }
        count_ += rows.values();
    }

    void find_plain_size() {
        for (NestedReader const& child : children_) {
            plain_size_ += 1 + child.plain_size_;
            if (child.plain_size_ != 0) continue;
            plain_size_ = 0;
            return;
        }
    }

    void structs(Pattern const& rows, Cursor* in) {
        for (std::size_t i = 0; i < children_.size();) {
            std::size_t const plain = rows.few_each() ? plain_fields(i, rows, in) : 0;
            if (plain == 0) children_[i].sequence(rows, in);
            i += std::max<std::size_t>(plain, 1);
        }
    }
    /// Appends those of fields from `first` on that are plain, where they are some; returns how many.
    std::size_t plain_fields(std::size_t first, Pattern const& rows, Cursor* in) {
        std::byte const* from[kBlockRows];
        std::size_t least = in[0].left();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            from[row] = in[row].at();
            least = std::min(least, in[row].left());
        }
        std::size_t offset = 0;
        std::size_t i = first;
        for (; i < children_.size(); ++i) {
            NestedReader& child = children_[i];
            std::size_t const size = 1 + child.plain_size_;
            bool const may_be =
                child.plain_size_ != 0 && child.waits_ == 0 && size <= least - offset;
            if (!may_be) break;
            if (!child.is_plain(rows.rows(), from, offset)) {
                child.waits_ = kWaits;
                break;
            }
            child.plain_body(rows, from, offset + 1);
            offset += size;
        }
        for (std::size_t row = 0; offset != 0 && row < rows.rows(); ++row) in[row].skip(offset);
        return i - first;
    }
    /// Whether sequences of one value, `offset` behind these addresses, have no null.
    [[nodiscard]] bool is_plain(std::size_t rows, std::byte const* const* from,
                                std::size_t offset) const {
        std::byte flags{};
        for (std::size_t row = 0; row < rows; ++row) flags |= from[row][offset];
        return flags == std::byte{0} && is_plain_body(rows, from, offset + 1);
    }
    [[nodiscard]] bool is_plain_body(std::size_t rows, std::byte const* const* from,
                                     std::size_t offset) const {
        for (NestedReader const& child : children_) {
            if (!child.is_plain(rows, from, offset)) return false;
            offset += 1 + child.plain_size_;
        }
        return true;
    }
    void plain_body(Pattern const& rows, std::byte const* const* from, std::size_t offset) {
        add_taken(rows);
        count_ += rows.values();
        if (type_.kind == Kind::Fixed) return copy_each(rows, from, offset);
        for (NestedReader& child : children_) {
            child.plain_body(rows, from, offset + 1);
            offset += 1 + child.plain_size_;
        }
    }

    void lists(Pattern const& rows, Cursor* in) {
        elements_.clear();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            elements_.add_row(read_lengths(rows, row, in[row]));
        }
        children_[0].sequence(elements_, in);
        check_offsets();  // only now: a length that no bytes follow is none
    }

    void fixed_lists(Pattern const& rows, Cursor* in) {
        elements_.clear();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::byte const* const lengths = in[row].values(rows.taken(row), 4);
            for (std::int64_t i = 0; i < rows.taken(row); ++i) {
                if (length_at(lengths, i) != type_.width) Cursor::refuse();
            }
            for (Pattern::Run const& run : rows.row(row)) {
                elements_.take(elements_of(run.take));
                elements_.fill(elements_of(run.fill));
            }
            elements_.end_row();
        }
        children_[0].sequence(elements_, in);
    }

    void unions(Pattern const& rows, Cursor* in) {
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::byte const* const which = in[row].values(rows.taken(row), 1);
            std::int64_t at = 0;
            rows.each(row, [&](bool taken) {
                if (!taken) return add_union_fill();
                auto const child = std::size_t(which[at++]);
                if (child >= children_.size()) Cursor::refuse();
                add_union(child,
                          [&](NestedReader& values) { values.sequence(Pattern::one(), &in[row]); });
            });
        }
    }
    [[nodiscard]] bool can_be_null(std::size_t child) const {
        return type_.children[child].nullable || type_.children[child].kind == Kind::Null;
    }
    /// Of the type of a union's value that stands for a null.
    [[nodiscard]] std::size_t filled_child() const {
        std::size_t child = 0;
        while (child < children_.size() && !can_be_null(child)) ++child;
        return child < children_.size() ? child : 0;
    }
    void add_union_fill() {
        if (children_.empty()) Cursor::refuse();
        add_union(filled_child(), [](NestedReader& values) { values.fill(1); });
    }
    template <class Add>
    void add_union(std::size_t child, Add const& add) {
        if (children_[child].count_ > std::numeric_limits<std::int32_t>::max()) {
            too_many("values of one type of a union than 32-bit offsets count");
        }
        values_.add_value(type_.codes[child]);
        places_.push_back(std::int32_t(children_[child].count_));
        add(children_[child]);
        ++count_;
        for (std::size_t i = 0; type_.kind == Kind::SparseUnion && i < children_.size(); ++i) {
            if (i != child) children_[i].fill(1);
        }
    }
    void add_index(std::uint64_t index, std::int64_t count) {
        if (index > largest(type_.index)) too_many("distinct values than the index type counts");
        auto const* const bytes = reinterpret_cast<std::byte const*>(&index);
        for (std::int64_t i = 0; i < count; ++i) values_.add(bytes, type_.index.row_width());
        count_ += count;
    }

    void indices(Pattern const& rows, Cursor* in) {
        NestedReader& values = children_[0];
        if (!values.type_.is_flat()) return indices_of_each(rows, in);
        Pattern const& valid = *valid_ones(rows, in);
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            each_flat(values.type_, valid, row, in[row],
                      [&](bool is_valid, std::string_view value) {
                          if (!is_valid) return add_index(0, 1);
                          auto const [number, kept] = distinct_.find(value);
                          if (kept != nullptr) {
                              *kept = kept_.emplace_back(value);
                              values.add_flat(value);
                          }
                          add_index(number, 1);
                      });
        }
    }
    /// Each value is one of the dictionary's, nulls too.
    void indices_of_each(Pattern const& rows, Cursor* in) {
        NestedReader& values = children_[0];
        if (rows.values() > kMostInvented - count_) too_many("values than a dictionary of such");
        auto next = std::uint64_t(values.count_);
        elements_.clear();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            elements_.add_row(rows.taken(row));
        }
        values.sequence(elements_, in);
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            rows.each(row, [&](bool taken) {
                validity_.add(taken, 1);
                add_index(taken ? next++ : 0, 1);
            });
        }
    }

    void runs(Pattern const& rows, Cursor* in) {
        NestedReader& values = children_[0];
        if (!values.type_.is_flat()) {
            if (rows.values() > kMostInvented - count_) too_many("values than runs of such");
            // Each value is a run.
            values.sequence(rows, in);
            for (std::int64_t i = 0; i < rows.values(); ++i) add_end();
            return;
        }
        valid_.clear();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::uint8_t const* const bits = in[row].validity(rows.taken(row));
            std::uint64_t at = 0;
            for (Pattern::Run const& run : rows.row(row)) {
                if (bits == nullptr) valid_.take(run.take);
                for (std::int64_t i = 0; bits != nullptr && i < run.take; ++i) {
                    device::bit_at(bits, at++) ? valid_.take(1) : valid_.fill(1);
                }
                valid_.fill(run.fill);
            }
            valid_.end_row();
            each_flat(values.type_, valid_, row, in[row],
                      [&](bool valid, std::string_view value) { add_run(value, valid); });
        }
    }

    void add_end() {
        ++count_;
        if (std::uint64_t(count_) > largest(type_.index)) too_many("rows than its run ends count");
        ends_.push_back(count_);
    }

    /// A row behind the others.
    void add_run(std::string_view value, bool valid) {
        bool const goes_on = count_ != 0 && valid == last_valid_ && value == last_;
        if (goes_on) {
            ends_.pop_back();
        } else {
            valid ? children_[0].add_flat(value) : children_[0].nulls(1);
        }
        add_end();
        last_valid_ = valid;
        last_ = value;
    }

    [[nodiscard]] ArrowArray run_ends(std::shared_ptr<void const> const& owner) {
        auto holder = std::make_unique<ArrayHolder>();
        holder->owner = owner;
        std::size_t const width = type_.index.row_width();
        for (std::int64_t const end : ends_) values_.add(&end, width);
        holder->buffers = {nullptr, data_of(values_)};
        ArrowArray array = seal(std::move(holder));
        array.length = std::int64_t(ends_.size());
        return array;
    }

    void add_offsets(ArrayHolder& holder) {
        holder.buffers.push_back(offsets_.all());
        if (type_.offsets >= Offsets::Views) holder.buffers.push_back(offsets_.sizes());
    }

    void add_buffers(ArrayHolder& holder) {
        switch (type_.kind) {
            case Kind::Bool: holder.buffers.push_back(bits_.all()); break;
            case Kind::Fixed:
            case Kind::Dictionary: holder.buffers.push_back(data_of(values_)); break;
            case Kind::List: add_offsets(holder); break;
            case Kind::SparseUnion: holder.buffers.push_back(data_of(values_)); break;
            case Kind::DenseUnion:
                holder.buffers.push_back(data_of(values_));
                holder.buffers.push_back(data_of(places_));
                break;
            case Kind::Text: add_text_buffers(holder); break;
            default: break;
        }
    }

    void add_text_buffers(ArrayHolder& holder) {
        if (type_.offsets < Offsets::Views) {
            add_offsets(holder);
            holder.buffers.push_back(data_of(values_));
            return;
        }
        views_.add_buffers(holder);
    }

    /// Blocks that a part is not tried to be plain in after one where it was not.
    static constexpr int kWaits = 15;

    std::vector<NestedReader> children_;
    std::size_t plain_size_ =
        0;  ///< of a value that is of fixed widths and has no null below; 0: there is no such
    int waits_ = 0;
    std::vector<std::int64_t> ends_;    ///< of runs
    std::vector<std::int32_t> places_;  ///< of a dense union
    Distinct distinct_;                 ///< a dictionary's values
    std::deque<std::string> kept_;
    std::string last_;  ///< of a run
    bool last_valid_ = false;
    Pattern elements_;  ///< scratch
};

}  // namespace mgi::arrow
