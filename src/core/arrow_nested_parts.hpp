/// \file
/// What nested values are read with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/device/layout.hpp>

#include "core/arrow_holders.hpp"
#include "core/arrow_nested.hpp"

namespace mgi::arrow {

/// Walks over a value's bytes, never beyond their end.
class Cursor {
public:
    struct NotAValue {};

    Cursor() = default;
    explicit Cursor(std::string_view bytes)
        : at_(reinterpret_cast<std::byte const*>(bytes.data())), left_(bytes.size()) {}

    [[noreturn]] static void refuse() { throw NotAValue(); }

    /// `count` values of a width.
    [[nodiscard]] std::byte const* values(std::int64_t count, std::int64_t width) {
        if (width != 0 && std::size_t(count) > left_ / std::size_t(width)) refuse();
        auto const bytes = std::size_t(count) * std::size_t(width);
        std::byte const* const found = at_;
        at_ += bytes;
        left_ -= bytes;
        return found;
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
    /// Nothing is left.
    void end() const {
        if (left_ != 0) refuse();
    }

private:
    std::byte const* at_ = nullptr;
    std::size_t left_ = 0;
};

inline std::uint32_t length_at(std::byte const* lengths, std::int64_t i) {
    std::uint32_t length = 0;
    std::memcpy(&length, lengths + 4 * i, sizeof length);
    return length;
}

/// Which values of an array stand in a sequence, in turn with others that are filled in.
class Pattern {
public:
    struct Run {
        std::int64_t take;
        std::int64_t fill;  ///< behind those
    };

    /// Of one value.
    static Pattern const& one() {
        static Pattern const pattern = [] {
            Pattern made;
            made.take(1);
            return made;
        }();
        return pattern;
    }

    void clear() {
        runs_.clear();
        taken_ = 0;
        values_ = 0;
    }
    Pattern const& set(std::int64_t taken) {
        clear();
        take(taken);
        return *this;
    }
    void take(std::int64_t count) {
        if (count == 0) return;
        if (!runs_.empty() && runs_.back().fill == 0) {
            runs_.back().take += count;
        } else {
            runs_.push_back({count, 0});
        }
        taken_ += count;
        values_ += count;
    }
    void fill(std::int64_t count) {
        if (count == 0) return;
        if (runs_.empty()) runs_.push_back({0, 0});
        runs_.back().fill += count;
        values_ += count;
    }

    [[nodiscard]] std::vector<Run> const& runs() const { return runs_; }
    [[nodiscard]] std::int64_t taken() const { return taken_; }
    [[nodiscard]] std::int64_t values() const { return values_; }
    /// Calls `each(taken)` for every value.
    template <class Each>
    void each(Each const& each) const {
        for (Run const& run : runs_) {
            for (std::int64_t i = 0; i < run.take; ++i) each(true);
            for (std::int64_t i = 0; i < run.fill; ++i) each(false);
        }
    }

private:
    std::vector<Run> runs_;
    std::int64_t taken_ = 0;
    std::int64_t values_ = 0;
};

/// Calls `each(valid, value)` for what a sequence of flat values has, filled ones as nulls.
template <class Each>
void each_flat(Nested const& values, Pattern const& valid, Cursor& in, Each const& each) {
    bool const bools = values.kind == Nested::Kind::Bool;
    bool const text = values.kind == Nested::Kind::Text;
    std::uint8_t const* const bits = bools ? in.bits(valid.taken()) : nullptr;
    std::byte const* const lengths = text ? in.values(valid.taken(), 4) : nullptr;
    std::int64_t at = 0;
    valid.each([&](bool taken) {
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

/// Where elements of lists, or characters of text, begin and end; all lie one behind another.
class GrowingOffsets {
public:
    void add(std::int64_t elements) { wide_.push_back(wide_.back() + elements); }
    [[nodiscard]] std::int64_t end() const { return wide_.back(); }
    [[nodiscard]] void const* all(bool narrow) {
        if (!narrow) return data_of(wide_);
        narrow_.assign(wide_.begin(), wide_.end());
        return data_of(narrow_);
    }
    [[nodiscard]] void const* sizes(bool narrow) {
        for (std::size_t i = 0; i + 1 < wide_.size(); ++i) {
            std::int64_t const size = wide_[i + 1] - wide_[i];
            narrow ? narrow_sizes_.push_back(std::int32_t(size)) : sizes_.push_back(size);
        }
        return narrow ? data_of(narrow_sizes_) : data_of(sizes_);
    }

private:
    std::vector<std::int64_t> wide_ = {0};
    std::vector<std::int32_t> narrow_;
    std::vector<std::int64_t> sizes_;
    std::vector<std::int32_t> narrow_sizes_;
};

/// Text as views of buffers of less than 2 GiB.
class GrowingViews {
public:
    void add(std::byte const* text, std::uint32_t length) {
        device::StringView16& view = views_.emplace_back();
        view.length = length;
        if (length <= device::StringView16::kInline) {
            if (length != 0) std::memcpy(view.text, text, length);
            return;
        }
        bool const full = texts_.empty() || texts_.back().size() + length > kMostOfBuffer;
        if (full) texts_.emplace_back();
        std::memcpy(view.ref.prefix, text, sizeof view.ref.prefix);
        view.ref.buffer = std::uint32_t(texts_.size() - 1);
        view.ref.offset = std::uint32_t(texts_.back().size());
        texts_.back().insert(texts_.back().end(), text, text + length);
    }
    void add_buffers(ArrayHolder& holder) const {
        holder.buffers.push_back(data_of(views_));
        for (std::vector<std::byte> const& text : texts_) {
            holder.buffers.push_back(text.data());
            holder.sizes.push_back(std::int64_t(text.size()));
        }
        holder.buffers.push_back(data_of(holder.sizes));
    }

private:
    static constexpr std::size_t kMostOfBuffer = std::numeric_limits<std::int32_t>::max();

    std::vector<device::StringView16> views_;
    std::deque<std::vector<std::byte>> texts_;
};

/// Bits one behind another.
class GrowingBits {
public:
    void add(bool bit, std::int64_t count) {
        for (; count > 0 && count_ % 8 != 0; --count) add_one(bit);
        all_.insert(all_.end(), std::size_t(count / 8), std::uint8_t(bit ? 0xff : 0));
        count_ += count / 8 * 8;
        for (count %= 8; count > 0; --count) add_one(bit);
    }
    [[nodiscard]] void const* all() const {
        static constexpr std::uint8_t none = 0;
        return all_.empty() ? &none : all_.data();
    }

private:
    void add_one(bool bit) {
        if (count_ % 8 == 0) all_.push_back(0);
        if (bit) all_.back() = std::uint8_t(all_.back() | 1u << (count_ % 8));
        ++count_;
    }

    std::vector<std::uint8_t> all_;
    std::int64_t count_ = 0;
};

/// Validity bits, which take no memory before the first null.
class GrowingValidity {
public:
    void add(bool valid, std::int64_t count) {
        if (count == 0) return;
        if (!valid && nulls_ == 0) bits_.add(true, count_);
        if (!valid) nulls_ += count;
        if (nulls_ != 0) bits_.add(valid, count);
        count_ += count;
    }
    [[nodiscard]] void const* bits() const { return nulls_ != 0 ? bits_.all() : nullptr; }
    [[nodiscard]] std::int64_t nulls() const { return nulls_; }

private:
    GrowingBits bits_;
    std::int64_t count_ = 0;
    std::int64_t nulls_ = 0;
};

}  // namespace mgi::arrow
