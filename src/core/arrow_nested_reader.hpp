/// \file
/// Nested values' bytes as Arrow's arrays.
#pragma once

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
#include "core/arrow_nested_parts.hpp"
#include "core/arrow_nested_plain.hpp"
#include "core/arrow_read_column.hpp"

namespace mgi::arrow {

/// Builds an array out of sequences, and by its children those of its parts.
class NestedReader {
    using Kind = Nested::Kind;
    using Offsets = Nested::Offsets;

public:
    NestedReader(Nested const& type, std::string const& name) : type_(type), name_(name) {
        children_.reserve(type.children.size());
        for (Nested const& child : type.children) children_.emplace_back(child, name);
    }

    /// Appends values out of a sequence, and between them such as `fill` appends.
    void sequence(Pattern const& pattern, Cursor& in) {
        switch (type_.kind) {
            case Kind::Null: return add_of_no_bytes(pattern.values());
            case Kind::Dictionary: return indices(pattern, in);
            case Kind::Runs: return runs(pattern, in);
            default: break;
        }
        if (type_.is_union()) return unions(pattern, in);
        bool const one = pattern.values() == 1 && pattern.taken() == 1;
        if (one && type_.is_flat() && type_.kind != Kind::Bool) return one_flat(in);
        body(valid_ones(pattern, in), in);
    }

    /// Appends one valid value out of its body.
    void value(Cursor& in) {
        if (nested_has_validity(type_.kind)) validity_.add(true, 1);
        if (type_.kind == Kind::List && list_of_fixed(in)) return;
        body(Pattern::one(), in);
    }

    /// Has room for so many plain values from now on.
    void reserve_plain(std::int64_t count) {
        if (type_.kind == Kind::Fixed) values_.reserve(std::size_t(count) * type_.width);
        for (NestedReader& child : children_) child.reserve_plain(count);
    }

    /// Appends plain values, whose bodies begin `offset` bytes behind these addresses.
    void plain(std::byte const* const* from, std::size_t offset, std::int64_t count) {
        validity_.add(true, count);
        count_ += count;
        for (NestedReader& child : children_) {
            child.plain(from, offset + 1, count);
            offset += 1 + plain_size(child.type_);
        }
        if (type_.kind != Kind::Fixed) return;
        std::size_t const at = values_.size();
        values_.resize(at + std::size_t(count) * type_.width);
        gather(from, offset, type_.width, count, values_.data() + at);
    }

    /// Appends nulls, where there can be some.
    void nulls(std::int64_t count) {
        if (type_.is_union() && (children_.empty() || !can_be_null(filled_child()))) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + name_ + "': none of the union's types can be null");
        }
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
    /// For values that are null or not there: nulls where a schema allows them.
    void fill(std::int64_t count) {
        if (nested_has_validity(type_.kind)) validity_.add(!fills_nulls(), count);
        empty(count);
    }
    [[nodiscard]] bool fills_nulls() const {
        return type_.nullable || type_.kind == Kind::Dictionary;
    }

    void empty(std::int64_t count) {
        switch (type_.kind) {
            case Kind::Null: return add_of_no_bytes(count);
            case Kind::Struct:
                for (NestedReader& child : children_) child.fill(count);
                break;
            case Kind::Bool: bits_.add(false, count); break;
            case Kind::Fixed:
                values_.resize(values_.size() + std::size_t(count) * type_.width);
                break;
            case Kind::Text:
                for (std::int64_t i = 0; i < count; ++i) add_text(nullptr, 0);
                break;
            case Kind::List:
                for (std::int64_t i = 0; i < count; ++i) add_offset(0);
                break;
            case Kind::FixedList: children_[0].fill(elements_of(count)); break;
            case Kind::Dictionary: return add_index(0, count);
            case Kind::Runs: return add_run({}, false, count);
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

    /// Bytes do not bound how many there are.
    void add_of_no_bytes(std::int64_t count) {
        if (count > kMostOfNoBytes - count_) too_many("values that take no bytes than 2^31 - 1");
        count_ += count;
    }

    /// Reads the validity of a sequence's values: of the pattern those that are valid.
    Pattern const& valid_ones(Pattern const& pattern, Cursor& in) {
        std::uint8_t const* const bits = in.validity(pattern.taken());
        std::int64_t at = 0;
        valid_.clear();
        for (Pattern::Run const& run : pattern.runs()) {
            if (bits == nullptr) {
                validity_.add(true, run.take);
                valid_.take(run.take);
            }
            for (std::int64_t i = 0; bits != nullptr && i < run.take; ++i, ++at) {
                bool const valid = device::bit_at(bits, std::uint64_t(at));
                if (!valid && !type_.nullable) Cursor::refuse();
                validity_.add(valid, 1);
                valid ? valid_.take(1) : valid_.fill(1);
            }
            validity_.add(!fills_nulls(), run.fill);
            valid_.fill(run.fill);
        }
        return valid_;
    }

    /// A sequence of one value.
    void one_flat(Cursor& in) {
        std::uint8_t const* const bits = in.validity(1);
        bool const valid = bits == nullptr || (*bits & 1) != 0;
        if (!valid && !type_.nullable) Cursor::refuse();
        validity_.add(valid, 1);
        if (!valid) return empty(1);
        if (type_.kind == Kind::Fixed) {
            add_bytes(in.values(1, std::int64_t(type_.width)), type_.width);
        } else {
            std::uint32_t const length = length_at(in.values(1, 4), 0);
            add_text(in.values(length, 1), length);
        }
        ++count_;
    }

    void add_bytes(std::byte const* from, std::size_t bytes) {
        std::size_t const at = values_.size();
        values_.resize(at + bytes);
        if (bytes != 0) std::memcpy(values_.data() + at, from, bytes);
    }

    void body(Pattern const& pattern, Cursor& in) {
        switch (type_.kind) {
            case Kind::Bool: bools(pattern, in); break;
            case Kind::Fixed: fixed(pattern, in); break;
            case Kind::Text: texts(pattern, in); break;
            case Kind::List: lists(pattern, in); break;
            case Kind::FixedList: fixed_lists(pattern, in); break;
            case Kind::Struct:
                for (NestedReader& child : children_) child.sequence(pattern, in);
                if (children_.empty()) return add_of_no_bytes(pattern.values());
                break;
            case Kind::SparseUnion:
            case Kind::DenseUnion: return unions(pattern, in);
            default: Cursor::refuse();
        }
        count_ += pattern.values();
    }

    void bools(Pattern const& pattern, Cursor& in) {
        std::uint8_t const* const bits = in.bits(pattern.taken());
        std::uint64_t at = 0;
        pattern.each([&](bool taken) {
            bits_.add(taken && device::bit_at(bits, at), 1);
            if (taken) ++at;
        });
    }

    void fixed(Pattern const& pattern, Cursor& in) {
        auto const width = std::int64_t(type_.width);
        for (Pattern::Run const& run : pattern.runs()) {
            std::byte const* const from = in.values(run.take, width);
            values_.insert(values_.end(), from, from + run.take * width);
            values_.resize(values_.size() + std::size_t(run.fill * width));
        }
    }

    void texts(Pattern const& pattern, Cursor& in) {
        std::byte const* const lengths = in.values(pattern.taken(), 4);
        std::int64_t at = 0;
        pattern.each([&](bool taken) {
            std::uint32_t const length = taken ? length_at(lengths, at++) : 0;
            add_text(in.values(length, 1), length);
        });
    }

    void add_text(std::byte const* text, std::uint32_t length) {
        if (type_.offsets >= Offsets::Views) return views_.add(text, length);
        add_bytes(text, length);
        add_offset(length);
    }

    /// Of so many elements behind the others.
    void add_offset(std::int64_t elements) {
        if (type_.is_narrow() &&
            offsets_.end() + elements > std::numeric_limits<std::int32_t>::max()) {
            too_many("elements or characters than 32-bit offsets count; wider ones can do it");
        }
        offsets_.add(elements);
    }

    [[noreturn]] void too_many(std::string const& what) const {
        throw TooManyRows("column '" + name_ + "': its nested values have more " + what +
                          ". A table comes in pieces, or give it another type");
    }

    /// The most usual one, as others are read; false, and nothing is read, where it has nulls.
    bool list_of_fixed(Cursor& in) {
        NestedReader& elements = children_[0];
        if (elements.type_.kind != Kind::Fixed) return false;
        Cursor ahead = in;
        std::int64_t const count = length_at(ahead.values(1, 4), 0);
        if (ahead.validity(count) != nullptr) return false;
        add_offset(count);
        auto const width = std::int64_t(elements.type_.width);
        elements.add_bytes(ahead.values(count, width), std::size_t(count * width));
        elements.validity_.add(true, count);
        elements.count_ += count;
        ++count_;
        in = ahead;
        return true;
    }

    void lists(Pattern const& pattern, Cursor& in) {
        std::byte const* const lengths = in.values(pattern.taken(), 4);
        std::int64_t const first = offsets_.end();
        std::int64_t at = 0;
        pattern.each([&](bool taken) { add_offset(taken ? length_at(lengths, at++) : 0); });
        children_[0].sequence(elements_.set(offsets_.end() - first), in);
    }

    void fixed_lists(Pattern const& pattern, Cursor& in) {
        std::byte const* const lengths = in.values(pattern.taken(), 4);
        for (std::int64_t i = 0; i < pattern.taken(); ++i) {
            if (length_at(lengths, i) != type_.width) Cursor::refuse();
        }
        elements_.clear();
        for (Pattern::Run const& run : pattern.runs()) {
            elements_.take(elements_of(run.take));
            elements_.fill(elements_of(run.fill));
        }
        children_[0].sequence(elements_, in);
    }

    void unions(Pattern const& pattern, Cursor& in) {
        std::byte const* const which = in.values(pattern.taken(), 1);
        std::int64_t at = 0;
        pattern.each([&](bool taken) {
            if (!taken) return add_union_fill();
            auto const child = std::size_t(which[at++]);
            if (child >= children_.size()) Cursor::refuse();
            add_union(child, [&](NestedReader& values) { values.sequence(Pattern::one(), in); });
        });
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
        values_.push_back(std::byte(type_.codes[child]));
        places_.push_back(std::int32_t(children_[child].count_));
        add(children_[child]);
        ++count_;
        for (std::size_t i = 0; type_.kind == Kind::SparseUnion && i < children_.size(); ++i) {
            if (i != child) children_[i].fill(1);
        }
    }
    void add_flat(std::string_view value) {
        validity_.add(true, 1);
        auto const* const bytes = reinterpret_cast<std::byte const*>(value.data());
        switch (type_.kind) {
            case Kind::Bool: bits_.add(value == "1", 1); break;
            case Kind::Text: add_text(bytes, std::uint32_t(value.size())); break;
            default: add_bytes(bytes, value.size());
        }
        ++count_;
    }

    void add_index(std::uint64_t index, std::int64_t count) {
        if (index > largest(type_.index)) too_many("distinct values than the index type counts");
        auto const* const bytes = reinterpret_cast<std::byte const*>(&index);
        for (std::int64_t i = 0; i < count; ++i) add_bytes(bytes, type_.index.row_width());
        count_ += count;
    }

    void indices(Pattern const& pattern, Cursor& in) {
        NestedReader& values = children_[0];
        if (!values.type_.is_flat()) {
            if (pattern.values() > kMostInvented - count_)
                too_many("values than a dictionary of such");
            // Each value is one of the dictionary's, nulls too.
            auto next = std::uint64_t(values.count_);
            values.sequence(elements_.set(pattern.taken()), in);
            pattern.each([&](bool taken) {
                validity_.add(taken, 1);
                add_index(taken ? next++ : 0, 1);
            });
            return;
        }
        each_flat(values.type_, valid_ones(pattern, in), in,
                  [&](bool valid, std::string_view value) {
                      if (!valid) return add_index(0, 1);
                      auto const [number, kept] = distinct_.find(value);
                      if (kept != nullptr) {
                          *kept = kept_.emplace_back(value);
                          values.add_flat(value);
                      }
                      add_index(number, 1);
                  });
    }

    void runs(Pattern const& pattern, Cursor& in) {
        NestedReader& values = children_[0];
        if (!values.type_.is_flat()) {
            if (pattern.values() > kMostInvented - count_) too_many("values than runs of such");
            // Each value is a run.
            values.sequence(pattern, in);
            for (std::int64_t i = 0; i < pattern.values(); ++i) add_end();
            return;
        }
        std::uint8_t const* const bits = in.validity(pattern.taken());
        std::int64_t at = 0;
        valid_.clear();
        pattern.each([&](bool taken) {
            bool const valid =
                taken && (bits == nullptr || device::bit_at(bits, std::uint64_t(at)));
            if (taken) ++at;
            valid ? valid_.take(1) : valid_.fill(1);
        });
        each_flat(values.type_, valid_, in,
                  [&](bool valid, std::string_view value) { add_run(value, valid, 1); });
    }

    void add_end() {
        ++count_;
        if (std::uint64_t(count_) > largest(type_.index)) too_many("rows than its run ends count");
        ends_.push_back(count_);
    }

    /// Rows of one value behind the others.
    void add_run(std::string_view value, bool valid, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
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
    }

    [[nodiscard]] ArrowArray run_ends(std::shared_ptr<void const> const& owner) {
        auto holder = std::make_unique<ArrayHolder>();
        holder->owner = owner;
        std::size_t const width = type_.index.row_width();
        values_.resize(ends_.size() * width);
        for (std::size_t i = 0; i < ends_.size(); ++i) {
            std::memcpy(values_.data() + i * width, &ends_[i], width);
        }
        holder->buffers = {nullptr, data_of(values_)};
        ArrowArray array = seal(std::move(holder));
        array.length = std::int64_t(ends_.size());
        return array;
    }

    void add_offsets(ArrayHolder& holder) {
        holder.buffers.push_back(offsets_.all(type_.is_narrow()));
        if (type_.offsets >= Offsets::Views)
            holder.buffers.push_back(offsets_.sizes(type_.is_narrow()));
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

    /// Values that no bytes bound, and those of them that take memory.
    static constexpr std::int64_t kMostOfNoBytes = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int64_t kMostInvented = std::int64_t{1} << 22;

    Nested const& type_;
    std::string const& name_;
    std::vector<NestedReader> children_;
    std::int64_t count_ = 0;
    GrowingValidity validity_;
    GrowingBits bits_;                  ///< of bools
    std::vector<std::byte> values_;     ///< fixed ones, text, indices, a union's codes
    GrowingOffsets offsets_;            ///< of lists and text
    std::vector<std::int64_t> ends_;    ///< of runs
    std::vector<std::int32_t> places_;  ///< of a dense union
    GrowingViews views_;
    Distinct distinct_;  ///< a dictionary's values
    std::deque<std::string> kept_;
    std::string last_;  ///< of a run
    bool last_valid_ = false;
    Pattern valid_;  ///< scratch
    Pattern elements_;
};

}  // namespace mgi::arrow
