#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mgi/device/batch_view.hpp>
#include <mgi/device/layout.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_flat.hpp"
#include "core/arrow_nested_plain.hpp"
#include "core/arrow_nested_rows.hpp"
#include "core/arrow_nested_spans.hpp"
#include "core/arrow_read_column.hpp"
#include "core/arrow_room.hpp"
#include "core/parallel.hpp"

namespace mgi::arrow {
namespace {

using device::StringView16;
/// Rows that one thread writes at a time.
constexpr std::int64_t kRowsOfThread = 1 << 13;

/// Writes values of one array, and by its children those of its parts: those of a block's rows together, first how many bytes
/// they take, then the bytes. It has scratch memory, so each thread has its own.
class Writer : public FlatWriter {
public:
    Writer(Nested const& type, std::string const& name, ArrowArray const& array)
        : FlatWriter(type, name, array) {
        children_.reserve(std::max<std::size_t>(1, type.children.size()));
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
            if (type.kind == Kind::Struct && i != 0) join_last();
        }
        find_plain();
    }

    /// A struct's fields, where they are all plain; else none.
    [[nodiscard]] PlainParts const& plain_fields() const { return fields_; }

    /// Adds to each row's size the bytes of its sequence, besides those that it returns, which every row has.
    std::size_t measure(Spans const& values, std::size_t* sizes) {
        given_ = &values;
        if (plain_.any()) return measure_plain(values, sizes);
        if (type_.kind == Kind::Fixed) return measure_nullable(values, sizes);
        Writer& valued = last();
        if (valued.type_.kind == Kind::Null) return 0;
        nulls_ = 0;
        stands_for_values() ? find_values(values) : find_nulls(values);
        if (nulls_ != 0) check_nullable();
        bool const has_validity = nested_has_validity(valued.type_.kind);
        if (nulls_ != 0 && !has_validity) malformed("has nulls in a dictionary of unions");
        for (std::size_t row = 0; nulls_ != 0 && row < values.rows(); ++row) {
            if (is_null_row(row)) sizes[row] += bytes_of_bits(values.count(row));
        }
        Spans const& valid = nulls_ != 0 || stands_for_values() ? valid_ : values;
        return (has_validity ? 1 : 0) + valued.measure_body(valid, sizes);
    }

    /// The same for bodies, of values that are all valid.
    std::size_t measure_body(Spans const& values, std::size_t* sizes) {
        valued_ = &values;
        switch (type_.kind) {
            case Kind::Null: return 0;
            case Kind::Bool:
            case Kind::Fixed:
            case Kind::Text: return measure_flat(values, sizes);
            case Kind::List:
            case Kind::FixedList: return measure_lists(values, sizes);
            case Kind::Struct: return measure_structs(values, sizes);
            case Kind::SparseUnion:
            case Kind::DenseUnion: put_unions(values, sizes); return 0;
            case Kind::Dictionary:
            case Kind::Runs: break;  // never a column's own
        }
        return 0;
    }

    /// Writes what was measured last to where each row's is, and moves those places behind it.
    void write(std::byte** to) {
        if (plain_.any()) return plain_.write(*given_, to);
        if (type_.kind == Kind::Fixed) return write_nullable(*given_, to);
        Writer& valued = last();
        if (valued.type_.kind == Kind::Null) return;
        if (nested_has_validity(valued.type_.kind)) {
            for (std::size_t row = 0; row < given_->rows(); ++row) {
                *to[row]++ = std::byte(is_null_row(row));
                if (is_null_row(row)) to[row] = write_validity(row, to[row]);
            }
        }
        valued.write_body(to);
    }

    void write_body(std::byte** to) {
        Spans const& values = *valued_;
        switch (type_.kind) {
            case Kind::Bool:
            case Kind::Fixed:
            case Kind::Text: return write_flat(values, to);
            case Kind::List:
            case Kind::FixedList: return write_lists(values, to);
            case Kind::Struct:
                for (Writer& child : children_) child.write(to);
                return;
            case Kind::SparseUnion:
            case Kind::DenseUnion: return write_unions(values, to);
            default: return;
        }
    }

private:
    /// Writes a struct's last two fields together where both are plain.
    void join_last() {
        Writer& last = children_.back();
        Writer& other = *(children_.end() - 2);
        if (!last.plain_.any() || !other.plain_.any()) return;
        other.plain_.add(last.plain_);
        children_.pop_back();
    }
    void find_plain() {
        bool const joined = type_.kind == Kind::Struct && children_.size() == 1;
        if (joined) fields_ = children_[0].plain_.behind(offset_);
        if (validity_ != nullptr) return;
        plain_ = fields_.with_flag();
        if (type_.kind == Kind::Fixed) plain_ = PlainParts(fixed_values(), type_.width);
    }
    std::size_t measure_plain(Spans const& values, std::size_t* sizes) const {
        if (values.one_each()) return plain_.flags() + plain_.width();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::size_t const bytes = length_of(values.count(row)) * plain_.width();
            sizes[row] += length_of(std::int64_t(bytes));
        }
        return plain_.flags();
    }

    /// Sets `nulls_`; where there are some `valid_` has the other values.
    void find_nulls(Spans const& values) {
        if (validity_ == nullptr) return;
        if (!values.one_each()) return find_valid_runs(values);
        find_null_rows(values);
        valid_.clear();
        for (std::size_t row = 0; nulls_ != 0 && row < values.rows(); ++row) {
            valid_.add_row(values.all()[row].first, is_null_row(row) ? 0 : 1);
        }
    }
    void find_valid_runs(Spans const& values) {
        valid_.clear();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::int64_t valid = 0;
            for (Span const& span : values.row(row)) {
                each_run(validity_, std::uint64_t(offset_ + span.first), span.count,
                         [&](std::int64_t first, std::int64_t count) {
                             valid_.add(span.first + first, count);
                             valid += count;
                         });
            }
            valid_.end_row();
            if (valid != values.count(row)) set_null_row(row);
        }
    }
    /// The same, and `valid_` has values that indices or runs stand for.
    void find_values(Spans const& values) {
        valid_.clear();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            values.each(row, [&](std::int64_t i) {
                std::int64_t const at = value_of(i);
                at < 0 ? set_null_row(row) : valid_.add(at, 1);
            });
            valid_.end_row();
        }
    }

    /// The validity of a row's values; returns what is behind it.
    std::byte* write_validity(std::size_t row, std::byte* to) const {
        if (!stands_for_values()) return write_bits(*given_, row, to);
        std::size_t const bytes = bytes_of_bits(given_->count(row));
        std::memset(to, 0, bytes);
        std::size_t at = 0;
        given_->each(row, [&](std::int64_t i) {
            if (value_of(i) >= 0) set_bit(reinterpret_cast<std::uint8_t*>(to), at);
            ++at;
        });
        return to + bytes;
    }

    /// Calls `call(elements)`, where `elements(i)` are those of a list.
    template <class Call>
    void with_elements(Call const& call) const {
        if (type_.kind == Kind::FixedList) {
            return call([offset = offset_, width = std::int64_t(type_.width)](std::int64_t i) {
                return Span{(offset + i) * width, width};
            });
        }
        with_offsets([&](auto const* offsets) {
            if (type_.offsets < Offsets::Views) {
                return call([=](std::int64_t i) {
                    auto const begin = std::int64_t(load_at(offsets, i));
                    return Span{begin, difference(load_at(offsets, i + 1), begin)};
                });
            }
            using Offset = std::remove_cvref_t<decltype(*offsets)>;
            auto const* const sizes = values<Offset>(2);
            call([=](std::int64_t i) { return Span{load_at(offsets, i), load_at(sizes, i)}; });
        });
    }
    void check_list(Span const& elements) const {
        if (elements.first < 0 || elements.count < 0 ||
            elements.first > array_.children[0]->length - elements.count) {
            malformed("has a list of elements that its child has not");
        }
        static_cast<void>(length_of(elements.count));
    }
    /// Whether elements are copied out of lists without a look at them.
    [[nodiscard]] bool are_plain_lists(Spans const& values) const {
        return values.one_each() && children_[0].plain_.any();
    }

    std::size_t measure_lists(Spans const& values, std::size_t* sizes) {
        if (are_plain_lists(values)) return measure_plain_lists(values, sizes);
        elements_.clear();
        with_elements([&](auto const& elements) {
            for (std::size_t row = 0; row < values.rows(); ++row) {
                values.each(row, [&](std::int64_t i) {
                    Span const list = elements(i);
                    check_list(list);
                    elements_.add(list.first, list.count);
                });
                elements_.end_row();
            }
        });
        return add_lengths(values, sizes) + children_[0].measure(elements_, sizes);
    }
    std::size_t measure_plain_lists(Spans const& values, std::size_t* sizes) const {
        PlainParts const& parts = children_[0].plain_;
        with_elements([&](auto const& elements) {
            for (std::size_t row = 0; row < values.rows(); ++row) {
                Span const list = elements(values.all()[row].first);
                check_list(list);
                std::size_t const bytes = std::size_t(list.count) * parts.width();
                sizes[row] += length_of(std::int64_t(bytes));
            }
        });
        return sizeof(std::uint32_t) + parts.flags();
    }
    void write_lists(Spans const& values, std::byte** to) {
        bool const plain = are_plain_lists(values);
        with_elements([&](auto const& elements) {
            for (std::size_t row = 0; row < values.rows(); ++row) {
                std::byte* at = to[row];
                values.each(row, [&](std::int64_t i) {
                    Span const list = elements(i);
                    at = put_length(at, list.count);
                    if (plain) at = children_[0].plain_.write_sequence({&list, &list + 1}, at);
                });
                to[row] = at;
            }
        });
        if (!plain) children_[0].write(to);
    }

    std::size_t measure_structs(Spans const& values, std::size_t* sizes) {
        Spans const& moved = offset_ == 0 ? values : elements_;
        if (offset_ != 0) {
            elements_.clear();
            for (std::size_t row = 0; row < values.rows(); ++row) {
                for (Span const& span : values.row(row)) {
                    elements_.add(offset_ + span.first, span.count);
                }
                elements_.end_row();
            }
        }
        std::size_t each = 0;
        for (Writer& child : children_) each += child.measure(moved, sizes);
        return each;
    }

    /// Writes unions' bytes, which come value by value, to where `write_unions` copies them from.
    void put_unions(Spans const& values, std::size_t* sizes) {
        unions_.clear();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::size_t const begin = unions_.size();
            values.each(row, [&](std::int64_t i) { unions_.add_value(std::uint8_t(child_at(i))); });
            std::size_t at = begin;
            values.each(row, [&](std::int64_t i) {
                put_union(i, std::to_integer<std::size_t>(unions_.data()[at++]), begin);
            });
            sizes[row] += union_sizes_[row] = unions_.size() - begin;
        }
    }
    [[nodiscard]] std::size_t child_at(std::int64_t i) const {
        std::int8_t const code = values<std::int8_t>(0)[i];
        auto const found = std::find(type_.codes.begin(), type_.codes.end(), code);
        if (found == type_.codes.end()) malformed("has a union's value of no type");
        return std::size_t(found - type_.codes.begin());
    }
    /// One of a row whose others begin there.
    void put_union(std::int64_t i, std::size_t child, std::size_t begin) {
        std::int64_t at = offset_ + i;
        if (type_.kind == Kind::DenseUnion) at = load_at(values<std::int32_t>(1), i);
        if (at < 0 || at >= array_.children[child]->length) {
            malformed("has a union's value that its child has not");
        }
        PlainParts const& plain = children_[child].plain_;
        auto const add = [&](std::size_t size) {
            static_cast<void>(length_of(std::int64_t(unions_.size() - begin + size)));
            return unions_.add(size);
        };
        if (plain.any()) return plain.write_together(at, 1, add(plain.size()));
        std::size_t size = 0;
        std::size_t const each = children_[child].measure(elements_.set(at), &size);
        size += each;
        std::byte* to = add(size);
        children_[child].write(&to);
    }
    void write_unions(Spans const& values, std::byte** to) const {
        std::byte const* from = unions_.data();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::size_t const size = union_sizes_[row];
            if (size != 0) std::memcpy(to[row], from, size);
            to[row] += size;
            from += size;
        }
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
        if (!known) malformed("has an index that its dictionary has not");
        return index;
    }
    [[nodiscard]] std::int64_t run_of(std::int64_t row) const {
        ArrowArray const& ends = *array_.children[0];
        std::int64_t const run = run_behind(ends, type_.index, row);
        if (run == ends.length) malformed("has runs that end before its rows do");
        return run;
    }

    std::vector<Writer> children_;
    PlainParts plain_;   ///< where this is such
    PlainParts fields_;  ///< of a struct, where they are such
    // What was measured last; all that follow are scratch.
    Spans const* given_ = nullptr;   ///< of a sequence
    Spans const* valued_ = nullptr;  ///< of a body
    Spans valid_;
    Spans elements_;
    Bytes unions_;
    std::array<std::size_t, kBlockRows> union_sizes_;
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
        writer = std::make_unique<RowWriter<Writer>>(type, name, array,
                                                     rows / std::int64_t(threads), views, buffers);
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
