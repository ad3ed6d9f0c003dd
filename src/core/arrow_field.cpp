#include "core/arrow_field.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::arrow {
namespace {

constexpr int kMostLevels = 64;

std::string text_of(char const* text) {
    return text != nullptr ? text : "";
}

/// Walks over metadata: a count, then keys and values, each behind its length, in this machine's
/// byte order. What contradicts itself ends the walk.
class MetadataReader {
public:
    explicit MetadataReader(char const* from, std::size_t size) : at_(from), left_(size) {}

    [[nodiscard]] std::int32_t number() {
        std::int32_t value = 0;
        if (left_ < sizeof value) return -1;
        std::memcpy(&value, at_, sizeof value);
        skip(sizeof value);
        return value;
    }
    [[nodiscard]] std::string_view text() {
        std::int32_t const size = number();
        if (size < 0 || std::size_t(size) > left_) return {};
        std::string_view const found(at_, std::size_t(size));
        skip(found.size());
        return found;
    }
    [[nodiscard]] char const* at() const { return at_; }

private:
    void skip(std::size_t bytes) {
        at_ += bytes;
        left_ -= bytes;
    }
    char const* at_;
    std::size_t left_;
};

ArrowField read_level(ArrowSchema const& schema, int level) {
    ArrowField field;
    field.format = text_of(schema.format);
    field.name = text_of(schema.name);
    field.metadata = copy_metadata(schema.metadata);
    field.flags = schema.flags;
    if (level == kMostLevels) {
        throw Error(ErrorCode::InvalidArgument, "column '" + field.name +
                                                    "': values are nested more than " +
                                                    std::to_string(kMostLevels) + " levels deep");
    }
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
        if (schema.children == nullptr || schema.children[i] == nullptr) {
            throw Error(
                ErrorCode::InvalidArgument,
                "column '" + field.name + "': the Arrow schema has no child " + std::to_string(i));
        }
        field.children.push_back(read_level(*schema.children[i], level + 1));
    }
    if (schema.dictionary != nullptr) {
        field.dictionary =
            std::make_shared<ArrowField const>(read_level(*schema.dictionary, level + 1));
    }
    return field;
}

}  // namespace

std::string copy_metadata(char const* from) {
    if (from == nullptr) return {};
    MetadataReader reader(from, std::numeric_limits<std::ptrdiff_t>::max());
    std::int32_t const pairs = reader.number();
    for (std::int32_t i = 0; i < 2 * pairs; ++i) static_cast<void>(reader.text());
    return pairs > 0 ? std::string(from, reader.at()) : std::string();
}

ArrowField read_field(ArrowSchema const& schema) {
    return read_level(schema, 0);
}

std::string_view metadata_value(std::string_view metadata, std::string_view key) {
    MetadataReader reader(metadata.data(), metadata.size());
    std::int32_t const pairs = reader.number();
    for (std::int32_t i = 0; i < pairs; ++i) {
        std::string_view const found = reader.text();
        std::string_view const value = reader.text();
        if (found == key) return value;
    }
    return {};
}

}  // namespace mgi::arrow
