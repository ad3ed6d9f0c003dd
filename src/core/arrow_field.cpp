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

/// More than any field has.
constexpr std::int32_t kMostPairs = 1 << 20;

/// Walks over metadata: a count, then keys and values, each behind its length, in this machine's
/// byte order. It stops for good where that cannot be.
class MetadataReader {
public:
    MetadataReader(char const* from, std::size_t size) : at_(from), left_(size) {
        pairs_ = number();
        if (pairs_ < 0 || pairs_ > kMostPairs) failed_ = true;
    }

    /// Of the pairs that are left, one less.
    [[nodiscard]] bool next() { return !failed_ && pairs_-- > 0; }
    [[nodiscard]] std::string_view text() {
        std::int32_t const size = number();
        if (size < 0 || std::size_t(size) > left_) failed_ = true;
        if (failed_) return {};
        std::string_view const found(at_, std::size_t(size));
        skip(found.size());
        return found;
    }
    [[nodiscard]] bool failed() const { return failed_; }
    [[nodiscard]] char const* at() const { return at_; }

private:
    [[nodiscard]] std::int32_t number() {
        std::int32_t value = 0;
        if (left_ < sizeof value) failed_ = true;
        if (failed_) return 0;
        std::memcpy(&value, at_, sizeof value);
        skip(sizeof value);
        return value;
    }
    void skip(std::size_t bytes) {
        at_ += bytes;
        left_ -= bytes;
    }

    char const* at_;
    std::size_t left_;
    std::int32_t pairs_ = 0;
    bool failed_ = false;
};

/// To its end, or where it cannot go on.
void read_all(MetadataReader& reader) {
    while (reader.next()) {
        static_cast<void>(reader.text());
        static_cast<void>(reader.text());
    }
}

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
    read_all(reader);
    if (reader.failed()) {
        throw Error(ErrorCode::InvalidArgument,
                    "an Arrow schema's metadata counts less than nothing, or too much");
    }
    bool const none = reader.at() == from + sizeof(std::int32_t);
    return none ? std::string() : std::string(from, reader.at());
}

bool is_metadata(std::string_view metadata) {
    if (metadata.empty()) return true;
    MetadataReader reader(metadata.data(), metadata.size());
    read_all(reader);
    return !reader.failed() && reader.at() == metadata.data() + metadata.size();
}

ArrowField const* values_of(ArrowField const& field) {
    if (field.dictionary != nullptr) return field.dictionary.get();
    return field.format == "+r" && field.children.size() == 2 ? &field.children[1] : nullptr;
}

ArrowField read_field(ArrowSchema const& schema) {
    return read_level(schema, 0);
}

std::optional<std::string_view> metadata_value(std::string_view metadata, std::string_view key) {
    MetadataReader reader(metadata.data(), metadata.size());
    while (reader.next()) {
        std::string_view const found = reader.text();
        std::string_view const value = reader.text();
        if (!reader.failed() && found == key) return value;
    }
    return std::nullopt;
}

std::optional<std::string_view> enumeration_of(ArrowField const& field) {
    if (field.dictionary == nullptr || field.metadata.empty()) return std::nullopt;
    auto const found = metadata_value(field.metadata, "_PL_ENUM_VALUES2");
    return found ? found : metadata_value(field.metadata, "_PL_ENUM_VALUES");
}

bool enumerations_hold(ArrowField const* holder, ArrowField const* held) {
    if (holder == nullptr || holder == held) return true;
    if (auto const own = enumeration_of(*holder)) {
        return held != nullptr && own == enumeration_of(*held);
    }
    for (std::size_t i = 0; i < holder->children.size(); ++i) {
        bool const there = held != nullptr && i < held->children.size();
        ArrowField const* const child = there ? &held->children[i] : nullptr;
        if (!enumerations_hold(&holder->children[i], child)) return false;
    }
    return true;
}

}  // namespace mgi::arrow
