#include "operators/key_pairs.hpp"

#include <array>
#include <charconv>
#include <string_view>

namespace mgi::operators {

namespace {

// Whose values may be equal, whatever they are counted in.
enum class Family : std::uint8_t { Number, Instant, WallClock, TimeOfDay, Duration };

// What an integer of a type counts: the 1 / (parts * 10^tens)th of 1, or of a day.
struct Measure {
    Family family = Family::Number;
    std::uint32_t parts = 1;
    int tens = 0;
};

// A day has 864 * 10^2 seconds.
constexpr std::uint32_t kPartsOfDay = 864;
constexpr int kTensOfSeconds = 2;

constexpr std::string_view kWidestDecimal = "decimal256(";

struct Named {
    std::string_view begin;
    Family family;
};
constexpr std::array<Named, 5> kTimes{{{"timestamp[", Family::WallClock},
                                       {"date64[", Family::WallClock},
                                       {"time32[", Family::TimeOfDay},
                                       {"time64[", Family::TimeOfDay},
                                       {"duration[", Family::Duration}}};

bool begins(std::string_view text, std::string_view with) {
    return text.substr(0, with.size()) == with;
}

// "ms" and what follows.
int tens_of(std::string_view unit) {
    if (begins(unit, "ms")) return kTensOfSeconds + 3;
    if (begins(unit, "us")) return kTensOfSeconds + 6;
    if (begins(unit, "ns")) return kTensOfSeconds + 9;
    return kTensOfSeconds;
}

std::optional<Measure> measure_of(Type const& type) {
    std::string const words = type.meaning();
    std::string_view const meaning = words;
    if (type.id == TypeId::Date32) return Measure{Family::WallClock};
    for (Named const& time : kTimes) {
        if (!begins(meaning, time.begin)) continue;
        bool const zoned = meaning.find(", tz=") != std::string_view::npos;
        return Measure{zoned ? Family::Instant : time.family, kPartsOfDay,
                       tens_of(meaning.substr(time.begin.size()))};
    }
    Measure number;
    if (begins(meaning, kWidestDecimal)) {
        char const* const scale = meaning.data() + meaning.find(", ") + 2;
        std::from_chars(scale, meaning.data() + meaning.size(), number.tens);
        return number;
    }
    if (!type.is_number() || type.is_float()) return std::nullopt;
    number.tens = type.scale;
    return number;
}

bool is_signed(Type const& type) {
    return type.id < TypeId::UInt8 || type.id > TypeId::UInt64;
}

std::uint64_t units_of(std::uint64_t parts, std::int64_t tens) {
    std::uint64_t units = parts;
    for (std::int64_t t = 0; t < tens; ++t) {
        if (__builtin_mul_overflow(units, std::uint64_t{10}, &units)) return 0;
    }
    return units;
}

KeyConversion conversion(Type const& from, Measure const& fine, Type const& to,
                         Measure const& coarse) {
    std::int64_t const tens = std::int64_t{fine.tens} - coarse.tens;
    KeyConversion how;
    how.from = device::u8(from.row_width());
    how.to = device::u8(to.row_width());
    how.from_signed = is_signed(from);
    how.to_signed = is_signed(to);
    how.tens = device::u32(tens);
    how.units = units_of(fine.parts / coarse.parts, tens);
    return how;
}

// As they lie: of types that count in no units, or in the same.
bool comparable(Type const& a, Type const& b) {
    if (!a.means_as(b)) return false;
    if (a.is_integer() && b.is_integer()) return true;
    if (a.is_float() && b.is_float()) return true;
    return a.id == b.id && a.width == b.width;
}

}  // namespace

std::optional<KeyPair> pair_keys(Type const& left, Type const& right) {
    auto const of_left = measure_of(left);
    auto const of_right = measure_of(right);
    KeyPair pair;
    if (!of_left || !of_right) {
        return comparable(left, right) ? std::optional(pair) : std::nullopt;
    }
    if (of_left->family != of_right->family) return std::nullopt;
    std::uint32_t const left_bytes = left.row_width();
    std::uint32_t const right_bytes = right.row_width();
    bool const words = left_bytes <= 8 && right_bytes <= 8;
    bool const same_unit = of_left->tens == of_right->tens && of_left->parts == of_right->parts;
    if (same_unit && (words || left_bytes == right_bytes)) return pair;
    bool const left_is_finer =
        same_unit ? left_bytes > right_bytes : of_left->tens > of_right->tens;
    if (left_is_finer) {
        pair.left = conversion(left, *of_left, right, *of_right);
    } else {
        pair.right = conversion(right, *of_right, left, *of_left);
    }
    return pair;
}

std::vector<ComparedKey> as_they_lie(Schema const& schema,
                                     std::vector<device::u32> const& columns) {
    std::vector<ComparedKey> keys;
    for (device::u32 const column : columns) keys.push_back({column, schema[column].type, {}});
    return keys;
}

}  // namespace mgi::operators
