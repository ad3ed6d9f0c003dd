// What processes of an operator tell each other, as bytes: numbers in eight bytes, texts behind their
// lengths. What comes from another process is read with care.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include <mgi/error.hpp>

#include "operators/text.hpp"

namespace mgi::operators {

class MessageWriter {
public:
    MessageWriter& number(u64 value) {
        bytes_.append(reinterpret_cast<char const*>(&value), sizeof value);
        return *this;
    }
    MessageWriter& text(std::string_view value) {
        number(value.size());
        bytes_.append(value);
        return *this;
    }
    [[nodiscard]] std::string take() { return std::move(bytes_); }

private:
    std::string bytes_;
};

// Throws Error(InvalidArgument) where there is less than is asked for.
class MessageReader {
public:
    explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

    u64 number() {
        u64 value = 0;
        std::memcpy(&value, cut(sizeof value).data(), sizeof value);
        return value;
    }
    // At most `most`.
    u64 number(u64 most) {
        u64 const value = number();
        if (value > most) refuse();
        return value;
    }
    std::string_view text() { return cut(number()); }
    [[nodiscard]] bool at_end() const { return bytes_.empty(); }

    [[noreturn]] static void refuse() {
        throw Error(ErrorCode::InvalidArgument,
                    "what another process of the operator says cannot be understood; do all run "
                    "the same version of MGI?");
    }

private:
    std::string_view cut(u64 size) {
        if (size > bytes_.size()) refuse();
        std::string_view const part = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return part;
    }

    std::string_view bytes_;
};

}  // namespace mgi::operators
