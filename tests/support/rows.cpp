// Rows as strings: read back from batches, and compared.
#include <algorithm>
#include <iterator>

#include "support/tables.hpp"

namespace mgi::test {

namespace {

void append(std::string& to, Cell const& value) {
    if (!value) {
        to.push_back('n');
        return;
    }
    to.push_back('v');
    auto const size = static_cast<std::uint32_t>(value->size());
    to.append(reinterpret_cast<char const*>(&size), sizeof(size));
    to += *value;
}

}  // namespace

std::string encode(Row const& row) {
    std::string out;
    for (Cell const& value : row) append(out, value);
    return out;
}

Row decode(std::string const& encoded) {
    Row row;
    for (std::size_t at = 0; at < encoded.size();) {
        if (encoded[at++] == 'n') {
            row.emplace_back();
            continue;
        }
        std::uint32_t size = 0;
        std::memcpy(&size, encoded.data() + at, sizeof(size));
        row.emplace_back(encoded.substr(at + sizeof(size), size));
        at += sizeof(size) + size;
    }
    return row;
}

std::string encode_row(RecordBatch const& batch, std::int64_t row) {
    std::string out;
    for (std::size_t c = 0; c < batch.schema.size(); ++c) {
        Type const& type = batch.schema[c].type;
        Cell value;
        if (batch.is_valid(c, row)) {
            if (type.is_variable()) {
                value = std::string(batch.string_at(c, row));
            } else if (type.id == TypeId::Bool) {
                value = cell(static_cast<std::uint8_t>(batch.bool_at(c, row)));
            } else {
                std::size_t const width = type.row_width();
                auto const* from = static_cast<char const*>(batch.columns[c].values);
                std::size_t const at =
                    static_cast<std::size_t>(batch.columns[c].offset + row) * width;
                value = std::string(from + at, width);
            }
        }
        append(out, value);
    }
    return out;
}

std::string encode_row(device::ReceivedBatch const& batch, Schema const& schema,
                       std::uint32_t row) {
    std::string out;
    for (std::uint32_t c = 0; c < schema.size(); ++c) {
        Type const& type = schema[c].type;
        Cell value;
        if (batch.valid(c, row)) {
            if (type.is_variable()) {
                device::Text const text = batch.text(c, row);
                value = std::string(text.data, text.size);
            } else if (type.id == TypeId::Bool) {
                value = cell(static_cast<std::uint8_t>(batch.bit(c, row)));
            } else {
                value = std::string(batch.value(c, row), type.row_width());
            }
        }
        append(out, value);
    }
    return out;
}

std::vector<std::string> encode_all(std::vector<Row> const& rows) {
    std::vector<std::string> out;
    for (Row const& row : rows) out.push_back(encode(row));
    return out;
}

namespace {

std::string printable(std::string const& encoded) {
    static char const digits[] = "0123456789abcdef";
    std::string out;
    for (Cell const& value : decode(encoded)) {
        out += out.empty() ? "(" : ", ";
        if (!value) {
            out += "null";
            continue;
        }
        for (char const byte : value->substr(0, 24)) {
            out += digits[static_cast<unsigned char>(byte) >> 4];
            out += digits[static_cast<unsigned char>(byte) & 15];
        }
    }
    return out + ")";
}

}  // namespace

::testing::AssertionResult same_rows(std::vector<std::string> got,
                                     std::vector<std::string> expected) {
    std::size_t const got_count = got.size();
    std::size_t const expected_count = expected.size();
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    if (got == expected) return ::testing::AssertionSuccess();
    std::vector<std::string> lost;
    std::vector<std::string> extra;
    std::set_difference(expected.begin(), expected.end(), got.begin(), got.end(),
                        std::back_inserter(lost));
    std::set_difference(got.begin(), got.end(), expected.begin(), expected.end(),
                        std::back_inserter(extra));
    auto result = ::testing::AssertionFailure()
                  << got_count << " rows instead of " << expected_count << "; " << lost.size()
                  << " lost, " << extra.size() << " too many (seed " << base_seed() << ")";
    for (std::size_t i = 0; i < std::min<std::size_t>(lost.size(), 4); ++i) {
        result << "\n  lost  " << printable(lost[i]);
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(extra.size(), 4); ++i) {
        result << "\n  extra " << printable(extra[i]);
    }
    return result;
}

}  // namespace mgi::test
