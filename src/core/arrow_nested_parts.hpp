/// \file
/// What nested values are read with.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/device/config.hpp>
#include <mgi/device/layout.hpp>

#include "core/arrow_holders.hpp"
#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_pattern.hpp"

namespace mgi::arrow {

/// Walks over a value's bytes, never beyond their end.
class Cursor {
public:
    struct NotAValue {};

    Cursor() = default;
    explicit Cursor(std::string_view bytes)
        : at_(reinterpret_cast<std::byte const*>(bytes.data())), end_(at_ + bytes.size()) {}

    [[noreturn]] static void refuse() { throw NotAValue(); }

    /// `count` values of a width.
    [[nodiscard]] std::byte const* values(std::int64_t count, std::int64_t width) {
        // Where `count` is no more than is left, the product is below 2^64, since widths are below 2^31.
        auto const left = std::size_t(end_ - at_);
        auto const bytes = std::size_t(count) * std::size_t(width);
        if (width != 0 && (std::size_t(count) > left || bytes > left)) refuse();
        return std::exchange(at_, at_ + bytes);
    }
    [[nodiscard]] std::uint8_t const* bits(std::int64_t count) {
        return reinterpret_cast<std::uint8_t const*>(values((count + 7) / 8, 1));
    }
    /// That of a sequence; null where all are valid.
    [[nodiscard]] std::uint8_t const* validity(std::int64_t count) {
        auto const flag = std::uint8_t(*values(1, 1));
        if (flag > 1) refuse();
        return flag == 0 ? nullptr : bits(count);
    }
    /// The value of a sequence of one; null where that is null. Without a branch that depends on that.
    [[nodiscard, gnu::always_inline]] std::byte const* one(std::size_t width) {
        if (left() < 2) return one_or_none(width);
        auto const flag = std::size_t(at_[0]);
        std::size_t const size = flag == 0 ? 1 + width : 2;
        bool const usual = (flag == 0) | ((flag == 1) & (at_[1] == std::byte(0)));
        if (!usual || left() < size) return one_or_none(width);
        std::byte const* const value = flag == 0 ? at_ + 1 : nullptr;
        at_ += size;
        return value;
    }
    [[nodiscard]] std::byte const* at() const { return at_; }
    [[nodiscard]] std::size_t left() const { return std::size_t(end_ - at_); }
    /// No more than are left.
    void skip(std::size_t bytes) { at_ += bytes; }
    /// Nothing is left.
    void end() const {
        if (at_ != end_) refuse();
    }

private:
    /// Not inlined, so that `one` is.
    [[nodiscard]] MGI_COLD std::byte const* one_or_none(std::size_t width) {
        std::uint8_t const* const bits = validity(1);
        bool const valid = bits == nullptr || (*bits & 1) != 0;
        return valid ? values(1, std::int64_t(width)) : nullptr;
    }

    std::byte const* at_ = nullptr;
    std::byte const* end_ = nullptr;
};

inline std::uint32_t length_at(std::byte const* lengths, std::int64_t i) {
    std::uint32_t length = 0;
    std::memcpy(&length, lengths + 4 * i, sizeof length);
    return length;
}

/// Calls `each(valid, value)` for what a row's sequence of flat values has, filled ones as nulls.
template <class Each>
void each_flat(Nested const& values, Pattern const& valid, std::size_t row, Cursor& in,
               Each const& each) {
    bool const bools = values.kind == Nested::Kind::Bool;
    bool const text = values.kind == Nested::Kind::Text;
    std::int64_t const count = valid.taken(row);
    std::uint8_t const* const bits = bools ? in.bits(count) : nullptr;
    std::byte const* const lengths = text ? in.values(count, 4) : nullptr;
    std::int64_t at = 0;
    valid.each(row, [&](bool taken) {
        if (!taken) return each(false, std::string_view());
        std::int64_t const i = at++;
        if (bools) {
            bool const bit = device::bit_at(bits, std::uint64_t(i));
            return each(true, std::string_view(bit ? "1" : "0", 1));
        }
        std::int64_t const size = text ? length_at(lengths, i) : std::int64_t(values.width);
        auto const* const value = reinterpret_cast<char const*>(in.values(size, 1));
        each(true, std::string_view(value, std::size_t(size)));
    });
}

/// The address of a vector's values, and one also where it has none.
template <class T>
void const* data_of(std::vector<T> const& values) {
    static constexpr std::int64_t none[2] = {0, 0};
    return values.empty() ? static_cast<void const*>(none) : values.data();
}

/// The address of bytes, and one also where there are none.
inline void const* data_of(Bytes const& bytes) {
    static constexpr std::int64_t none[2] = {0, 0};
    return bytes.size() == 0 ? static_cast<void const*>(none) : bytes.data();
}

/// Where elements of lists, or characters of text, begin and end; all lie one behind another.
class GrowingOffsets {
public:
    /// Before all others.
    void begin(bool narrow) {
        narrow_ = narrow;
        add(0);
    }
    [[nodiscard]] std::size_t size() const { return all_.size(); }
    void reserve_times(double times) { all_.reserve_times(times); }
    void add(std::int64_t elements) {
        end_ += elements;
        narrow_ ? all_.add_value(std::int32_t(end_)) : all_.add_value(end_);
    }
    /// So many, as `length_at` has their lengths.
    void add_lengths(std::byte const* lengths, std::int64_t count) {
        narrow_ ? add_as<std::int32_t>(lengths, count) : add_as<std::int64_t>(lengths, count);
    }
    [[nodiscard]] std::int64_t end() const { return end_; }
    [[nodiscard]] void const* all() const { return data_of(all_); }
    [[nodiscard]] void const* sizes() {
        narrow_ ? add_sizes<std::int32_t>() : add_sizes<std::int64_t>();
        return data_of(sizes_);
    }

private:
    template <class Offset>
    void add_as(std::byte const* lengths, std::int64_t count) {
        std::byte* to = all_.add(std::size_t(count) * sizeof(Offset));
        std::int64_t end = end_;
        for (std::int64_t i = 0; i < count; ++i, to += sizeof(Offset)) {
            end += length_at(lengths, i);
            auto const offset = Offset(end);
            std::memcpy(to, &offset, sizeof offset);
        }
        end_ = end;
    }
    template <class Offset>
    void add_sizes() {
        auto const* const offsets = reinterpret_cast<Offset const*>(all_.data());
        std::size_t const count = all_.size() / sizeof(Offset) - 1;
        for (std::size_t i = 0; i < count; ++i) {
            sizes_.add_value(Offset(offsets[i + 1] - offsets[i]));
        }
    }

    bool narrow_ = true;
    std::int64_t end_ = 0;
    Bytes all_;
    Bytes sizes_;
};

/// Text as views of buffers of less than 2 GiB.
class GrowingViews {
public:
    [[nodiscard]] std::size_t size() const { return views_.size(); }
    void reserve_times(double times) { views_.reserve_times(times); }
    void add(std::byte const* text, std::uint32_t length) {
        View view;
        view.length = length;
        if (length <= View::kInline) {
            if (length != 0) std::memcpy(view.text, text, length);
            return views_.add_value(view);
        }
        bool const full = texts_.empty() || texts_.back().size() + length > kMostOfBuffer;
        if (full) texts_.emplace_back();
        std::memcpy(view.ref.prefix, text, sizeof view.ref.prefix);
        view.ref.buffer = std::uint32_t(texts_.size() - 1);
        view.ref.offset = std::uint32_t(texts_.back().size());
        texts_.back().add(text, length);
        views_.add_value(view);
    }
    void add_buffers(ArrayHolder& holder) const {
        holder.buffers.push_back(data_of(views_));
        for (Bytes const& text : texts_) {
            holder.buffers.push_back(text.data());
            holder.sizes.push_back(std::int64_t(text.size()));
        }
        holder.buffers.push_back(data_of(holder.sizes));
    }

private:
    using View = device::StringView16;
    static constexpr std::size_t kMostOfBuffer = std::numeric_limits<std::int32_t>::max();

    Bytes views_;
    std::deque<Bytes> texts_;
};

/// Bits one behind another.
class GrowingBits {
public:
    void add(bool bit, std::int64_t count) {
        for (; count > 0; count -= kBitsOfWord) {
            std::int64_t const few = std::min(count, kBitsOfWord);
            add_word(bit ? ones(few) : 0, few);
        }
    }
    /// So many bits of a word, at most kBitsOfWord; those above them are 0.
    void add_word(std::uint64_t word, std::int64_t count) {
        if (used_ + count > 64) add_bytes(used_ / 8);
        last_ |= word << used_;
        used_ += count;
    }
    /// When all are there.
    [[nodiscard]] void const* all() {
        add_bytes((used_ + 7) / 8);
        return data_of(all_);
    }

private:
    void add_bytes(std::int64_t bytes) {
        all_.add(&last_, std::size_t(bytes));
        last_ = bytes == 8 ? 0 : last_ >> 8 * bytes;
        used_ = std::max<std::int64_t>(0, used_ - 8 * bytes);
    }

    Bytes all_;
    std::uint64_t last_ = 0;  ///< the last bits, which all_ has not yet
    std::int64_t used_ = 0;
};

/// Validity bits, which take no memory before the first null.
class GrowingValidity {
public:
    void add(bool valid, std::int64_t count) {
        if (count == 0) return;
        if (!valid) add_nulls(count);
        if (nulls_ != 0) bits_.add(valid, count);
        count_ += count;
    }
    /// As GrowingBits has it.
    void add_word(std::uint64_t word, std::int64_t count) {
        if (word == ones(count)) return add(true, count);
        add_nulls(count - std::popcount(word));
        bits_.add_word(word, count);
        count_ += count;
    }
    /// Of a word's lowest bits, which may be all.
    void add_few(std::uint64_t word, std::int64_t count) {
        std::int64_t const few = std::min(count, kBitsOfWord);
        add_word(word & ones(few), few);
        if (count > few) add_word(word >> few & ones(count - few), count - few);
    }
    [[nodiscard]] void const* bits() { return nulls_ != 0 ? bits_.all() : nullptr; }
    [[nodiscard]] std::int64_t nulls() const { return nulls_; }

private:
    void add_nulls(std::int64_t count) {
        if (nulls_ == 0) bits_.add(true, count_);
        nulls_ += count;
    }

    GrowingBits bits_;
    std::int64_t count_ = 0;
    std::int64_t nulls_ = 0;
};

}  // namespace mgi::arrow
