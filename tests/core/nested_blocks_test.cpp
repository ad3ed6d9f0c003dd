// Nested values are written and read by blocks of rows, 64 of them: among others a row is what it is alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "support/arrow_part.hpp"
#include "support/expect_error.hpp"

namespace mgi::nested_blocks {
namespace {

using test::expect_error;
using test::Part;
using test::read;

/// Columns' rows begin so far behind their arrays' first ones.
constexpr std::int64_t kBefore = 3;

/// Keeps arrays of `rows` rows and kBefore more, and what they are made of.
class Arrays {
public:
    explicit Arrays(std::int64_t rows) : all_(rows + kBefore) {}

    [[nodiscard]] std::int64_t all() const { return all_; }

    /// Validity, without every `period`-th value from `first` on.
    void const* valid(std::int64_t count, std::int64_t period, std::int64_t first = 0) {
        std::vector<std::uint8_t> bits(std::size_t(count + 7) / 8, 0xff);
        for (std::int64_t i = first; i < count; ++i) {
            if (i % period == 0) bits[std::size_t(i) / 8] &= std::uint8_t(~(1u << (i % 8)));
        }
        return keep(std::move(bits));
    }
    Part& numbers(std::int64_t count, void const* valid) {
        std::vector<std::int64_t> made;
        for (std::int64_t i = 0; i < count; ++i) made.push_back(i * 0x0102030405);
        return part("l", count, {valid, keep(std::move(made))});
    }
    Part& fixed(std::int64_t count, std::size_t width, void const* valid) {
        std::vector<std::uint8_t> bytes(std::size_t(count) * width);
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::uint8_t(i * 7 + i / 251);
        return part("w:" + std::to_string(width), count, {valid, keep(std::move(bytes))});
    }
    /// Short ones, and a long one now and then.
    Part& texts(std::int64_t count, void const* valid, std::size_t longest = 300) {
        std::vector<std::int32_t> ends = {0};
        std::vector<char> text;
        for (std::int64_t i = 0; i < count; ++i) {
            text.insert(text.end(), i % 41 == 7 ? longest : std::size_t(i % 5), char('a' + i % 26));
            ends.push_back(std::int32_t(text.size()));
        }
        return part("u", count, {valid, keep(std::move(ends)), keep(std::move(text))});
    }
    /// Of 0 to 3 elements.
    Part& lists(Part& elements, void const* valid) {
        std::vector<std::int32_t> ends = {1};
        for (std::int64_t i = 0; i < all_; ++i) {
            ends.push_back(ends.back() + std::int32_t(i % 7 == 3 ? 0 : i % 4));
        }
        return part("+l", all_, {valid, keep(std::move(ends))}, {&elements});
    }
    /// Of 2 elements, which lie in no order.
    Part& list_views(Part& elements, void const* valid) {
        std::vector<std::int32_t> begins;
        for (std::int64_t i = 0; i < all_; ++i) {
            begins.push_back(std::int32_t(i * 5 % (elements.array.length - 1)));
        }
        std::vector<std::int32_t> sizes(std::size_t(all_), 2);
        return part("+vl", all_, {valid, keep(std::move(begins)), keep(std::move(sizes))},
                    {&elements});
    }
    Part& structs(std::int64_t count, void const* valid, std::vector<Part*> fields) {
        return part("+s", count, {valid}, std::move(fields));
    }
    Part& unions(Part& one, Part& other) {
        std::vector<std::int8_t> codes;
        std::vector<std::int32_t> places;
        for (std::int64_t i = 0; i < all_; ++i) {
            codes.push_back(std::int8_t(i % 3 == 0));
            places.push_back(std::int32_t(all_ - 1 - i));
        }
        return part("+ud:0,1", all_, {keep(std::move(codes)), keep(std::move(places))},
                    {&one, &other});
    }
    Part& part(std::string format, std::int64_t count, std::vector<void const*> buffers,
               std::vector<Part*> children = {}) {
        return parts_.emplace_back(std::move(format), count, std::move(buffers),
                                   std::move(children));
    }

private:
    template <class T>
    void const* keep(std::vector<T> values) {
        auto const kept = std::make_shared<std::vector<T>>(std::move(values));
        kept_.push_back(kept);
        return kept->data();
    }

    std::int64_t all_;
    std::deque<Part> parts_;
    std::vector<std::shared_ptr<void>> kept_;
};

std::string value_of(RecordBatch const& batch, std::int64_t row) {
    return batch.is_valid(0, row) ? "+" + std::string(batch.string_at(0, row)) : "";
}

/// The rows of a column have the bytes that each has alone, and come out as they are.
void check(Part& column, std::string const& what) {
    std::int64_t const rows = column.array.length - kBefore;
    column.array.offset = kBefore;
    column.array.length = rows;
    RecordBatch const batch = read(column);
    column.array.length = 1;
    for (std::int64_t row = 0; row < rows; ++row) {
        column.array.offset = kBefore + row;
        ASSERT_EQ(value_of(batch, row), value_of(read(column), 0)) << what << ", row " << row;
    }
    ArrowArray array{};
    ArrowSchema schema{};
    export_batch(batch, &array);
    export_schema(batch, &schema);
    RecordBatch const again = import_batch(&array, &schema);
    for (std::int64_t row = 0; row < rows; ++row) {
        ASSERT_EQ(value_of(batch, row), value_of(again, row)) << what << ", row " << row;
    }
}

TEST(NestedBlocks, RowsAreWhatTheyAreAlone) {
    for (std::int64_t const rows : {1, 63, 64, 65, 127, 128, 130, 200}) {
        Arrays a(rows);
        std::string const at = ", of " + std::to_string(rows) + " rows";
        std::int64_t const all = a.all();
        std::int64_t const many = 4 * all;
        // Nulls of rows, of fields and of elements; some only in the blocks behind the first.
        void const* const fifth = a.valid(many, 5);
        void const* const late = a.valid(many, 3, 70);
        check(a.structs(all, nullptr, {&a.numbers(all, nullptr), &a.numbers(all, nullptr)}),
              "plain" + at);
        check(a.structs(all, nullptr, {&a.numbers(all, fifth), &a.texts(all, late)}),
              "nullable" + at);
        check(a.structs(all, fifth, {&a.numbers(all, late), &a.texts(all, fifth)}),
              "null rows" + at);
        Part& inner = a.structs(all, late, {&a.numbers(all, fifth), &a.texts(all, nullptr)});
        check(a.structs(all, nullptr, {&inner, &a.numbers(all, nullptr)}), "inner nulls" + at);
        check(a.lists(a.numbers(many, nullptr), nullptr), "list" + at);
        check(a.lists(a.numbers(many, fifth), fifth), "list with nulls" + at);
        check(a.lists(a.texts(many, nullptr), nullptr), "texts" + at);
        check(a.lists(a.texts(many, late), late), "texts with nulls" + at);
        Part& pairs = a.structs(many, fifth, {&a.numbers(many, late), &a.texts(many, fifth)});
        check(a.lists(pairs, late), "structs" + at);
        Part& fixed = a.part("+w:2", all, {late}, {&a.numbers(2 * all, fifth)});
        check(a.structs(all, nullptr, {&fixed, &a.texts(all, nullptr)}), "fixed" + at);
        Part& either = a.unions(a.numbers(all, late), a.texts(all, nullptr));
        check(a.structs(all, fifth, {&a.numbers(all, nullptr), &either, &a.texts(all, late)}),
              "union" + at);
    }
}

TEST(NestedBlocks, PartsOfAnyWidthAreCopied) {
    for (std::size_t const width : {1, 2, 3, 4, 8, 12, 16, 20, 5000}) {
        Arrays a(130);
        std::string const of = " of width " + std::to_string(width);
        std::int64_t const all = a.all();
        std::int64_t const many = 4 * all;
        void const* const fifth = a.valid(many, 5);
        void const* const late = a.valid(many, 3, 70);
        for (void const* const valid : {static_cast<void const*>(nullptr), fifth, late}) {
            Part& inner =
                a.structs(all, nullptr, {&a.fixed(all, width, nullptr), &a.fixed(all, 3, valid)});
            check(a.structs(all, nullptr, {&a.fixed(all, width, valid)}), "struct" + of);
            check(a.structs(all, late, {&a.fixed(all, width, nullptr), &inner}), "inner" + of);
            check(a.structs(all, valid, {&inner, &a.texts(all, late), &a.numbers(all, nullptr)}),
                  "struct with texts" + of);
            check(a.lists(a.fixed(many, width, valid), fifth), "list" + of);
            check(a.list_views(a.fixed(many, width, valid), late), "list view" + of);
            Part& pairs =
                a.structs(many, valid, {&a.fixed(many, width, nullptr), &a.numbers(many, nullptr)});
            pairs.array.offset = 2;
            pairs.array.length = many - 2;
            check(a.lists(pairs, nullptr), "list of structs" + of);
            Part& both = a.part("+w:2", all, {valid}, {&a.fixed(2 * all, width, nullptr)});
            check(a.structs(all, nullptr, {&both, &a.list_views(pairs, valid)}), "lists" + of);
        }
    }
}

TEST(NestedBlocks, ABlocksValuesMayFillSeveralBuffers) {
    Arrays a(200);
    check(a.structs(a.all(), nullptr, {&a.texts(a.all(), nullptr, 3 << 20)}), "long");
}

/// Structs of a number and a text, of which these rows are cut short, one within its first part.
void expect_refused(std::int64_t rows, std::int64_t early, std::int64_t late) {
    Arrays a(rows);
    Part& column =
        a.structs(a.all(), nullptr, {&a.numbers(a.all(), nullptr), &a.texts(a.all(), nullptr)});
    RecordBatch batch = read(column);
    batch.rows = rows;
    std::string bytes;
    std::vector<std::int64_t> ends = {0};
    for (std::int64_t row = 0; row < rows; ++row) {
        std::string const body(batch.string_at(0, row));
        bytes += body.substr(0, row == early ? 5 : body.size() - (row == late ? 1 : 0));
        ends.push_back(std::int64_t(bytes.size()));
    }
    Column cut;
    cut.encoding = Encoding::Offsets64;
    cut.values = ends.data();
    cut.bytes = reinterpret_cast<std::byte const*>(bytes.data());
    batch.columns = {cut};
    ArrowArray array{};
    expect_error(ErrorCode::InvalidArgument,
                 {"value " + std::to_string(std::min(early, late)) + " holds no struct"},
                 [&] { export_batch(batch, &array); });
}

TEST(NestedBlocks, TheFirstRowWhoseBytesAreNoValueIsNamed) {
    expect_refused(130, 9, 5);
    expect_refused(130, 5, 9);
    expect_refused(130, 64, 63);
    expect_refused(130, 63, 64);
    expect_refused(130, 129, 128);
    expect_refused(65, 64, 65);
}

}  // namespace
}  // namespace mgi::nested_blocks
