#include "fuzz/foreign_batch.hpp"

#include <array>

#include <mgi/device/layout.hpp>

namespace mgi::fuzz {
namespace {

struct Format {
    char const* format;
    std::uint32_t width;
};

constexpr std::array<Format, 15> kFormats{{{"b", 0},
                                           {"c", 1},
                                           {"S", 2},
                                           {"f", 4},
                                           {"l", 8},
                                           {"tdD", 4},
                                           {"d:15,2", 16},
                                           {"w:5", 5},
                                           {"w:300", 300},
                                           {"u", 0},
                                           {"U", 0},
                                           {"z", 0},
                                           {"Z", 0},
                                           {"vu", 0},
                                           {"vz", 0}}};

bool bit(char const* bits, std::int64_t at) {
    return ((std::uint8_t(bits[at / 8]) >> (at % 8)) & 1) != 0;
}

template <class Released>
void count_release(Released* released) {
    ++*static_cast<int*>(released->private_data);
    released->release = nullptr;
}

template <class Released>
void just_release(Released* released) {
    released->release = nullptr;
}

}  // namespace

ForeignSchema::ForeignSchema(Input& input) {
    std::uint32_t const count = input.below(7);
    for (std::uint32_t c = 0; c < count; ++c) {
        Format const& format = kFormats[input.below(kFormats.size())];
        ForeignColumn& column = columns.emplace_back();
        column.format = format.format;
        column.width = format.width;
        column.name = "c" + std::to_string(c);
        column.nullable = input.below(2) != 0;
        column.schema.format = column.format;
        column.schema.name = column.name.c_str();
        column.schema.flags = column.nullable ? ARROW_FLAG_NULLABLE : 0;
        column.schema.release = &just_release<ArrowSchema>;
        children_.push_back(&column.schema);
    }
    schema.format = "+s";
    schema.n_children = std::int64_t(count);
    schema.children = children_.data();
    schema.release = &count_release<ArrowSchema>;
    schema.private_data = &releases;
    if (!input.one_in(16)) return;
    sound = false;
    switch (input.below(4)) {
        case 0: schema.n_children = -1 - std::int64_t(input.below(3)); break;
        case 1:
            schema.children = nullptr;
            sound = count == 0;
            break;
        case 2:
            if (count != 0) children_[input.below(count)] = nullptr;
            sound = count == 0;
            break;
        default: schema.format = nullptr; break;
    }
}

/// A column while it is made.
struct ForeignBatch::Made {
    ArrowArray& array;
    std::vector<void const*>& buffers;
    std::vector<Cell>& cells;
};

ForeignBatch::ForeignBatch(Input& input, ForeignSchema const& schema) {
    rows = input.below(2) == 0 ? input.below(8) : input.below(200);
    std::int64_t const skip = input.below(4) == 0 ? input.below(70) : 0;
    array.length = rows;
    array.offset = skip;
    for (ForeignColumn const& column : schema.columns) make_column(input, column, skip);
    for (ArrowArray& column : columns_) children_.push_back(&column);
    array.n_buffers = 1;
    array.buffers = no_validity_;
    array.n_children = std::int64_t(children_.size());
    array.children = children_.data();
    array.release = &count_release<ArrowArray>;
    array.private_data = &releases;
    if (!input.one_in(8)) return;
    bool const empty = children_.empty();
    switch (input.below(6)) {
        case 0:
            array.length = -1 - std::int64_t(input.below(100));
            sound = false;
            break;
        case 1:
            array.offset = input.below(2) == 0 ? -1 - std::int64_t(input.below(100))
                                               : std::numeric_limits<std::int64_t>::max() -
                                                     std::int64_t(input.below(100));
            sound = false;
            break;
        case 2:
            array.n_children += input.below(2) == 0 ? 1 : -1;
            sound = false;
            break;
        case 3:
            array.children = nullptr;
            sound = sound && empty;
            break;
        case 4:
            if (!empty) children_[input.below(std::uint32_t(children_.size()))] = nullptr;
            sound = sound && empty;
            break;
        default:
            array.buffers = nullptr;  // what a struct without validity may well have
            break;
    }
}

/// Memory of exactly so many bytes, sometimes not aligned, filled from the input's pattern.
char* ForeignBatch::buffer(Input& input, std::size_t bytes) {
    std::size_t const shift = input.below(4) == 0 ? 1 + input.below(7) : 0;
    memory_.push_back(std::make_unique<char[]>(bytes + shift));
    char* const from = memory_.back().get() + shift;
    auto state = input.take<std::uint16_t>() * 2u + 1u;
    for (std::size_t i = 0; i < bytes; ++i) {
        state = state * 1664525u + 1013904223u;
        from[i] = char(state >> 24);
    }
    return from;
}

void ForeignBatch::make_column(Input& input, ForeignColumn const& column, std::int64_t skip) {
    ArrowArray& out = columns_.emplace_back();
    Made made{out, buffers_.emplace_back(), cells.emplace_back(std::size_t(rows))};
    out.offset = input.below(3) == 0 ? input.below(70) : 0;
    out.length = skip + rows + input.below(3);
    out.release = &just_release<ArrowArray>;
    std::int64_t const first = out.offset + skip;  // of our rows in the buffers

    char const* validity = nullptr;
    if (column.nullable && input.below(2) != 0) {
        validity = buffer(input, std::size_t(first + rows + 7) / 8);
        out.null_count = input.below(2) == 0 ? -1 : 1;
    }
    made.buffers.push_back(validity);
    switch (column.format[0]) {
        case 'u':
        case 'z': fill_offsets(input, made, first, false); break;
        case 'U':
        case 'Z': fill_offsets(input, made, first, true); break;
        case 'v': fill_views(input, made, first); break;
        default: fill_values(input, column, made, first); break;
    }
    for (std::int64_t row = 0; validity != nullptr && row < rows; ++row) {
        if (!bit(validity, first + row)) made.cells[std::size_t(row)].reset();
    }
    out.n_buffers = std::int64_t(made.buffers.size());
    out.buffers = made.buffers.data();
    if (input.one_in(8)) spoil(input, out, skip);
}

void ForeignBatch::fill_values(Input& input, ForeignColumn const& column, Made& made,
                               std::int64_t first) {
    auto const end = std::size_t(first + rows);
    bool const bits = column.width == 0;
    char const* const values = buffer(input, bits ? (end + 7) / 8 : end * column.width);
    made.buffers.push_back(values);
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t const at = first + row;
        made.cells[std::size_t(row)] = bits ? std::string(1, bit(values, at) ? '1' : '0')
                                            : std::string(values + at * column.width, column.width);
    }
}

void ForeignBatch::fill_offsets(Input& input, Made& made, std::int64_t first, bool large) {
    auto const count = std::size_t(first + rows + 1);
    std::vector<std::int64_t> offsets(count);
    std::int64_t end = input.below(40);
    std::uint32_t const longest = 1 + input.below(60);
    for (std::size_t i = 0; i < count; ++i) {
        offsets[i] = end;
        // Lengths repeat; a choice for each would use up the input.
        end += std::int64_t(i * 7 % longest);
    }
    char* const at = buffer(input, count * (large ? 8 : 4));
    for (std::size_t i = 0; i < count; ++i) {
        auto const narrow = std::int32_t(offsets[i]);
        if (large) {
            std::memcpy(at + i * 8, &offsets[i], 8);
        } else {
            std::memcpy(at + i * 4, &narrow, 4);
        }
    }
    char const* const characters = buffer(input, std::size_t(offsets.back()));
    made.buffers.push_back(at);
    made.buffers.push_back(characters);
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t const from = offsets[std::size_t(first + row)];
        made.cells[std::size_t(row)] = std::string(
            characters + from, std::size_t(offsets[std::size_t(first + row) + 1] - from));
    }
}

void ForeignBatch::fill_views(Input& input, Made& made, std::int64_t first) {
    constexpr std::size_t kBytes = 64;
    std::uint32_t const buffers = input.below(4);
    std::vector<char const*> data;
    for (std::uint32_t b = 0; b < buffers; ++b) data.push_back(buffer(input, kBytes));
    auto const count = std::size_t(first + rows);
    char* const at = buffer(input, count * 16);
    std::uint32_t const step = 1 + input.below(63);
    for (std::size_t i = 0; i < count; ++i) {
        device::StringView16 view;
        view.length = std::uint32_t(i * step % (buffers == 0 ? 13 : kBytes + 1));
        std::string text(view.length, 'x');
        if (view.length <= device::StringView16::kInline) {
            std::memcpy(view.text, text.data(), text.size());
        } else {
            view.ref.buffer = std::uint32_t(i % buffers);
            view.ref.offset = std::uint32_t(kBytes - view.length);
            text.assign(data[view.ref.buffer] + view.ref.offset, view.length);
            std::memcpy(view.ref.prefix, text.data(), 4);
        }
        std::memcpy(at + i * 16, &view, 16);
        if (std::int64_t(i) >= first) made.cells[i - std::size_t(first)] = std::move(text);
    }
    made.buffers.push_back(at);
    made.buffers.insert(made.buffers.end(), data.begin(), data.end());
    char* const sizes = buffer(input, buffers * 8);
    std::int64_t const bytes = kBytes;
    for (std::uint32_t b = 0; b < buffers; ++b) std::memcpy(sizes + b * 8, &bytes, 8);
    made.buffers.push_back(sizes);
}

/// One thing that an importer can see to be wrong.
void ForeignBatch::spoil(Input& input, ArrowArray& column, std::int64_t skip) {
    std::vector<void const*>& buffers = buffers_.back();
    // Values are not looked for where there are no rows.
    bool const needed = rows > 0;
    switch (input.below(7)) {
        case 0: column.length = skip + rows - 1 - std::int64_t(input.below(3)); break;
        case 1: column.offset = -1 - std::int64_t(input.below(100)); break;
        case 2: column.offset = std::numeric_limits<std::int64_t>::max() - input.below(3); break;
        case 3: column.n_buffers = std::int64_t(input.below(2)); break;
        case 4: column.buffers = nullptr; break;
        case 5:
            buffers[1] = nullptr;  // values, offsets or views
            if (!needed) return;
            break;
        default: column.dictionary = &column; break;
    }
    sound = false;
}

}  // namespace mgi::fuzz
