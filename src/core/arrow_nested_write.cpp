#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_plain.hpp"
#include "core/arrow_nested_rows.hpp"
#include "core/arrow_read_column.hpp"
#include "core/arrow_room.hpp"
#include "core/parallel.hpp"

namespace mgi::arrow {
namespace {

using device::StringView16;
using Kind = Nested::Kind;
using Offsets = Nested::Offsets;

/// Rows that one thread writes at a time.
constexpr std::int64_t kRowsOfThread = 1 << 13;
[[noreturn]] void malformed(std::string const& name, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "column '" + name + "': the Arrow array " + what);
}

/// Writes values of one array, and by its children those of its parts. It has scratch memory, so each thread has
/// its own.
class Writer {
public:
    Writer(Nested const& type, std::string const& name, ArrowArray const& array)
        : type_(type), name_(name), array_(array), offset_(array.offset) {
        check_nested_array(type, name, array);
        if (nested_has_validity(type.kind) && array.null_count != 0 &&
            array.buffers[0] != nullptr) {
            validity_ = static_cast<std::uint8_t const*>(array.buffers[0]);
        }
        if (type.kind == Kind::Dictionary) {
            children_.emplace_back(type.children[0], name, *array.dictionary);
            return;
        }
        if (type.kind == Kind::Runs) {
            children_.emplace_back(type.children[0], name, *array.children[1]);
            return;
        }
        for (std::size_t i = 0; i < type.children.size(); ++i) {
            children_.emplace_back(type.children[i], name, *array.children[i]);
        }
    }

    [[nodiscard]] bool is_valid(std::int64_t i) const {
        return validity_ == nullptr || device::bit_at(validity_, std::uint64_t(offset_ + i));
    }

    /// Whether values [first, first + count) are valid.
    [[nodiscard]] bool are_valid(std::int64_t first, std::int64_t count) const {
        bool all = true;
        for (std::int64_t i = first; validity_ != nullptr && i < first + count; ++i) {
            all = all && is_valid(i);
        }
        return all;
    }

    /// Bytes of each value's body, where all valid ones are plain; else 0.
    [[nodiscard]] std::size_t plain() const {
        for (Writer const& child : children_) {
            if (child.validity_ != nullptr || child.plain() == 0) return 0;
        }
        return plain_size(type_);
    }
    /// The parts of plain values from `first` on, each value behind so many bytes more.
    void add_parts(std::int64_t first, std::size_t flags, std::vector<PlainPart>& parts) const {
        if (type_.kind == Kind::Fixed) {
            auto const* const from = static_cast<std::byte const*>(array_.buffers[1]);
            parts.push_back(
                {from + std::size_t(offset_ + first) * type_.width, type_.width, flags});
        }
        for (Writer const& child : children_) {
            child.add_parts(offset_ + first, flags + 1, parts);
            flags = 0;
        }
    }

    void sequence(Spans const& spans, Bytes& out) {
        if (stands_for_values()) return sequence_of_values(spans, out);
        if (!nested_has_validity(type_.kind)) return body(spans, out);
        bool const all = validity_ == nullptr || add_valid(spans);
        if (!all) check_nullable();
        if (all) {
            out.add_byte(0);
            return body(spans, out);
        }
        add_validity(spans.count(), out, [&](auto const& each) {
            spans.each([&](std::int64_t i) { each(is_valid(i)); });
        });
        body(valid_, out);
    }

    /// The sequence of one value.
    void one(std::int64_t i, Bytes& out) {
        if (!type_.is_flat()) {
            one_.clear();
            one_.add(i, 1);
            return sequence(one_, out);
        }
        if (!is_valid(i)) {
            check_nullable();
            out.add_byte(1);
            return out.add_byte(0);
        }
        if (type_.kind == Kind::Fixed) return one_fixed(i, out);
        out.add_byte(0);
        one_.clear();
        one_.add(i, 1);
        body(one_, out);
    }

    /// Of valid ones.
    void body(Spans const& spans, Bytes& out) {
        switch (type_.kind) {
            case Kind::Null: return;
            case Kind::Bool: return bools(spans, out);
            case Kind::Fixed: return fixed(spans, out);
            case Kind::Text: return texts(spans, out);
            case Kind::List: return lists(spans, out);
            case Kind::FixedList: return fixed_lists(spans, out);
            case Kind::Struct: return structs(spans, out);
            case Kind::SparseUnion:
            case Kind::DenseUnion: return unions(spans, out);
            case Kind::Dictionary:
            case Kind::Runs: break;  // never a column's own
        }
    }

private:
    /// Whether all are valid; else `valid_` has those that are.
    bool add_valid(Spans const& spans) {
        valid_.clear();
        bool all = true;
        spans.each([&](std::int64_t i) {
            if (is_valid(i)) {
                valid_.add(i, 1);
            } else {
                all = false;
            }
        });
        return all;
    }

    /// `each_valid` calls with the validity of each of them.
    template <class EachValid>
    static void add_validity(std::int64_t count, Bytes& out, EachValid const& each_valid) {
        auto const bytes = std::size_t(count + 7) / 8;
        auto* const bits = reinterpret_cast<std::uint8_t*>(out.add(1 + bytes));
        std::memset(bits, 0, 1 + bytes);
        bits[0] = 1;
        std::size_t at = 0;
        each_valid([&](bool valid) {
            if (valid) set_bit(bits + 1, at);
            ++at;
        });
    }

    void check_nullable() const {
        if (!type_.nullable) malformed(name_, "has nulls in a part that is not nullable");
    }

    /// Null where an array of no rows lacks the buffer.
    template <class T>
    [[nodiscard]] T const* values(std::int64_t buffer) const {
        auto const* const first = static_cast<T const*>(array_.buffers[buffer]);
        return first == nullptr ? nullptr : first + offset_;
    }

    void bools(Spans const& spans, Bytes& out) const {
        auto const bytes = std::size_t(spans.count() + 7) / 8;
        auto* const bits = reinterpret_cast<std::uint8_t*>(out.add(bytes));
        std::memset(bits, 0, bytes);
        auto const* const from = static_cast<std::uint8_t const*>(array_.buffers[1]);
        std::size_t at = 0;
        spans.each([&](std::int64_t i) {
            if (device::bit_at(from, std::uint64_t(offset_ + i))) set_bit(bits, at);
            ++at;
        });
    }

    void fixed(Spans const& spans, Bytes& out) const {
        std::size_t const width = type_.width;
        auto const* const from = static_cast<std::byte const*>(array_.buffers[1]);
        for (Span const& span : spans.all()) {
            std::size_t const bytes = length_of(span.count) * width;
            static_cast<void>(length_of(std::int64_t(bytes)));
            out.add(from + std::size_t(offset_ + span.first) * width, bytes);
        }
    }

    void one_fixed(std::int64_t i, Bytes& out) const {
        std::size_t const width = type_.width;
        std::byte* const to = out.add(1 + width);
        *to = std::byte(0);
        auto const* const from =
            static_cast<std::byte const*>(array_.buffers[1]) + std::size_t(offset_ + i) * width;
        switch (width) {
            case 4: std::memcpy(to + 1, from, 4); break;
            case 8: std::memcpy(to + 1, from, 8); break;
            default: std::memcpy(to + 1, from, width);
        }
    }

    void texts(Spans const& spans, Bytes& out) const {
        switch (type_.offsets) {
            case Offsets::Narrow: return texts_behind<std::int32_t>(spans, out);
            case Offsets::Wide: return texts_behind<std::int64_t>(spans, out);
            default: return text_views(spans, out);
        }
    }

    template <class Offset>
    void texts_behind(Spans const& spans, Bytes& out) const {
        auto const* const offsets = values<Offset>(1);
        auto const* const text = static_cast<std::byte const*>(array_.buffers[2]);
        for (Span const& span : spans.all()) {
            static_cast<void>(length_of(std::int64_t(offsets[span.first + span.count]) -
                                        std::int64_t(offsets[span.first])));
        }
        spans.each([&](std::int64_t i) {
            std::int64_t const bytes = std::int64_t(offsets[i + 1]) - std::int64_t(offsets[i]);
            if (offsets[i] < 0 || bytes < 0) malformed(name_, "has offsets that decrease");
            if (bytes != 0 && text == nullptr) malformed(name_, "has no characters");
            out.add_length(length_of(bytes));
        });
        for (Span const& span : spans.all()) {
            auto const begin = std::size_t(offsets[span.first]);
            auto const end = std::size_t(offsets[span.first + span.count]);
            if (begin != end) out.add(text + begin, end - begin);
        }
    }

    void text_views(Spans const& spans, Bytes& out) const {
        auto const* const views = values<StringView16>(1);
        spans.each([&](std::int64_t i) { out.add_length(views[i].length); });
        spans.each([&](std::int64_t i) {
            StringView16 const& view = views[i];
            if (view.length <= StringView16::kInline) return out.add(view.text, view.length);
            // Validity, views, data buffers, and their sizes.
            if (std::int64_t(view.ref.buffer) >= array_.n_buffers - 3) {
                malformed(name_, "has a view into a data buffer that it has not");
            }
            auto const* const text =
                static_cast<std::byte const*>(array_.buffers[2 + view.ref.buffer]);
            if (text == nullptr) malformed(name_, "has no characters");
            out.add(text + view.ref.offset, view.length);
        });
    }

    [[nodiscard]] std::uint32_t length_of(std::int64_t count) const {
        if (count > std::int64_t(kMostBytes)) malformed(name_, "has a value of 2 GiB or more");
        return std::uint32_t(count);
    }

    /// Writes lengths and finds the elements.
    template <class Offset>
    void lists_behind(Spans const& spans, Bytes& out) {
        auto const* const offsets = values<Offset>(1);
        spans.each([&](std::int64_t i) {
            add_list(std::int64_t(offsets[i]), std::int64_t(offsets[i + 1]), out);
        });
    }
    template <class Offset>
    void list_views(Spans const& spans, Bytes& out) {
        auto const* const offsets = values<Offset>(1);
        auto const* const sizes = values<Offset>(2);
        spans.each([&](std::int64_t i) {
            auto const begin = std::int64_t(offsets[i]);
            if (!possible(begin, std::int64_t(sizes[i]))) add_list(-1, -1, out);
            add_list(begin, begin + std::int64_t(sizes[i]), out);
        });
    }
    void add_list(std::int64_t begin, std::int64_t end, Bytes& out) {
        check_list(begin, end);
        out.add_length(length_of(end - begin));
        elements_.add(begin, end - begin);
    }
    void check_list(std::int64_t begin, std::int64_t end) const {
        if (begin < 0 || end < begin || end > array_.children[0]->length) {
            malformed(name_, "has a list of elements that its child has not");
        }
    }

    /// The most usual lists, as the others are written.
    template <class Offset>
    void list_of_fixed(std::int64_t i, Bytes& out) const {
        auto const* const offsets = values<Offset>(1);
        auto const begin = std::int64_t(offsets[i]);
        auto const end = std::int64_t(offsets[i + 1]);
        check_list(begin, end);
        Writer const& child = children_[0];
        std::size_t const width = child.type_.width;
        std::uint32_t const length = length_of(end - begin);
        std::size_t const bytes = length * width;
        std::byte* const to = out.add(sizeof length + 1 + length_of(std::int64_t(bytes)));
        std::memcpy(to, &length, sizeof length);
        to[sizeof length] = std::byte(0);
        if (bytes == 0) return;
        auto const* const from = static_cast<std::byte const*>(child.array_.buffers[1]);
        std::memcpy(to + sizeof length + 1, from + std::size_t(child.offset_ + begin) * width,
                    bytes);
    }

    void lists(Spans const& spans, Bytes& out) {
        bool const of_fixed =
            children_[0].type_.kind == Kind::Fixed && children_[0].validity_ == nullptr;
        if (of_fixed && spans.all().size() == 1 && spans.all()[0].count == 1) {
            std::int64_t const i = spans.all()[0].first;
            if (type_.offsets == Offsets::Narrow) return list_of_fixed<std::int32_t>(i, out);
            if (type_.offsets == Offsets::Wide) return list_of_fixed<std::int64_t>(i, out);
        }
        elements_.clear();
        switch (type_.offsets) {
            case Offsets::Narrow: lists_behind<std::int32_t>(spans, out); break;
            case Offsets::Wide: lists_behind<std::int64_t>(spans, out); break;
            case Offsets::Views: list_views<std::int32_t>(spans, out); break;
            case Offsets::WideViews: list_views<std::int64_t>(spans, out); break;
        }
        children_[0].sequence(elements_, out);
    }

    void fixed_lists(Spans const& spans, Bytes& out) {
        auto const width = std::int64_t(type_.width);
        elements_.clear();
        for (Span const& span : spans.all()) {
            for (std::int64_t i = 0; i < span.count; ++i) out.add_length(length_of(width));
            elements_.add((offset_ + span.first) * width, span.count * width);
        }
        children_[0].sequence(elements_, out);
    }

    void structs(Spans const& spans, Bytes& out) {
        if (spans.all().size() == 1 && spans.all()[0].count == 1) {
            std::int64_t const at = offset_ + spans.all()[0].first;
            for (Writer& child : children_) child.one(at, out);
            return;
        }
        if (offset_ == 0) {
            for (Writer& child : children_) child.sequence(spans, out);
            return;
        }
        elements_.clear();
        for (Span const& span : spans.all()) elements_.add(offset_ + span.first, span.count);
        for (Writer& child : children_) child.sequence(elements_, out);
    }

    void unions(Spans const& spans, Bytes& out) {
        auto const* const codes = values<std::int8_t>(0);
        auto const child_at = [&](std::int64_t i) {
            auto const found = std::find(type_.codes.begin(), type_.codes.end(), codes[i]);
            if (found == type_.codes.end()) malformed(name_, "has a union's value of no type");
            return std::size_t(found - type_.codes.begin());
        };
        spans.each([&](std::int64_t i) { out.add_byte(std::uint8_t(child_at(i))); });
        spans.each([&](std::int64_t i) {
            std::size_t const child = child_at(i);
            std::int64_t at = offset_ + i;
            if (type_.kind == Kind::DenseUnion) at = values<std::int32_t>(1)[i];
            if (at < 0 || at >= array_.children[child]->length) {
                malformed(name_, "has a union's value that its child has not");
            }
            elements_.clear();
            elements_.add(at, 1);
            children_[child].sequence(elements_, out);
        });
    }

    [[nodiscard]] bool stands_for_values() const {
        return type_.kind == Kind::Dictionary || type_.kind == Kind::Runs;
    }
    /// Where the values are that indices or runs stand for, perhaps those of others.
    [[nodiscard]] Writer& last() { return stands_for_values() ? children_[0].last() : *this; }
    /// The value there; -1: a null.
    [[nodiscard]] std::int64_t value_of(std::int64_t i) const {
        if (!is_valid(i)) return -1;
        if (!stands_for_values()) return i;
        return children_[0].value_of(type_.kind == Kind::Runs ? run_of(offset_ + i) : index_of(i));
    }
    [[nodiscard]] std::int64_t index_of(std::int64_t i) const {
        std::int64_t const index = integer_at(type_.index, array_.buffers[1], offset_ + i);
        bool const known = index >= 0 && index < array_.dictionary->length;
        if (!known) malformed(name_, "has an index that its dictionary has not");
        return index;
    }
    [[nodiscard]] std::int64_t run_of(std::int64_t row) const {
        ArrowArray const& ends = *array_.children[0];
        std::int64_t const run = run_behind(ends, type_.index, row);
        if (run == ends.length) malformed(name_, "has runs that end before its rows do");
        return run;
    }

    void sequence_of_values(Spans const& spans, Bytes& out) {
        Writer& values = last();
        if (values.type_.kind == Kind::Null) return;
        bool const is_union = values.type_.is_union();
        elements_.clear();
        bool all = true;
        spans.each([&](std::int64_t i) {
            std::int64_t const at = value_of(i);
            if (at < 0) {
                all = false;
            } else {
                elements_.add(at, 1);
            }
        });
        if (!all) check_nullable();
        if (is_union && !all) malformed(name_, "has nulls in a dictionary of unions");
        if (all && !is_union) out.add_byte(0);
        if (!all) {
            add_validity(spans.count(), out, [&](auto const& each) {
                spans.each([&](std::int64_t i) { each(value_of(i) >= 0); });
            });
        }
        values.body(elements_, out);
    }

    Nested const& type_;
    std::string const& name_;
    ArrowArray const& array_;
    std::int64_t const offset_;
    std::uint8_t const* validity_ = nullptr;
    std::vector<Writer> children_;
    Spans valid_;  ///< scratch, as all that follow
    Spans elements_;
    Spans one_;
};

}  // namespace

Column write_nested(Nested const& type, std::string const& name, ArrowArray const& array,
                    std::int64_t skip, std::int64_t rows, Room& room) {
    auto* const views = room.of<StringView16>(std::size_t(rows));
    auto const blocks = std::size_t((rows + kRowsOfThread - 1) / kRowsOfThread);
    std::size_t const threads = std::max<std::size_t>(1, std::min(blocks, all_threads()));
    std::atomic<std::uint32_t> buffers{0};
    std::vector<std::unique_ptr<RowWriter<Writer>>> writers(threads);
    for (auto& writer : writers) {
        writer = std::make_unique<RowWriter<Writer>>(type, name, array, views, buffers);
    }
    in_parallel(blocks, threads, [&](std::size_t block, std::size_t thread) {
        std::int64_t const first = std::int64_t(block) * kRowsOfThread;
        writers[thread]->write(skip, first, std::min(rows, first + kRowsOfThread));
    });
    Column column;
    column.encoding = Encoding::Views;
    column.values = views;
    column.buffers.resize(buffers.load());
    column.buffer_sizes.resize(column.buffers.size());
    for (auto const& writer : writers) writer->finish(column, room);
    return column;
}

}  // namespace mgi::arrow
