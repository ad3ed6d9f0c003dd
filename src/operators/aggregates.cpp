#include "operators/aggregates.hpp"

#include <bit>
#include <limits>

#include <mgi/error.hpp>

namespace mgi::operators {

namespace {

constexpr i64 kLowest = std::numeric_limits<i64>::min();
constexpr i64 kHighest = std::numeric_limits<i64>::max();
constexpr i128 kLowest128 = static_cast<i128>(u128{1} << 127);
constexpr i128 kHighest128 = ~kLowest128;
// A text state without a value.
constexpr u32 kNoText = 0xffffffffu;

// A state at any multiple of 8 bytes.
template <class T>
struct alignas(8) Stored {
    T value;
};
struct alignas(8) Stored128 {
    u64 low;
    i64 high;
    [[nodiscard]] i128 get() const { return i128{high} << 64 | low; }
    void set(i128 value) {
        low = static_cast<u64>(value);
        high = static_cast<i64>(value >> 64);
    }
};

template <class T>
T& state_at(char* row, u32 offset) {
    return reinterpret_cast<Stored<T>*>(row + offset)->value;
}

// Value that leaves a state as it is.
i64 neutral(Fold fold) {
    return fold == Fold::Min64 ? kHighest : fold == Fold::Max64 ? kLowest : 0;
}
i128 neutral128(Fold fold) {
    return fold == Fold::Min128 ? kHighest128 : fold == Fold::Max128 ? kLowest128 : 0;
}

template <class T, class Convert>
void convert(ColumnView const& view, u32 count, i64* to, Convert&& one) {
    T const* const from = values_of<T>(view);
    for (u32 i = 0; i < count; ++i) to[i] = one(load(from + i));
}

i64 flipped(u64 value) {
    return static_cast<i64>(value ^ u64{1} << 63);
}

// Values as i64; what lies behind nulls becomes the fold's neutral value.
i64 const* words_of(State const& state, Type const& type, ColumnView const& view, u32 count,
                    i64* scratch) {
    auto const plain = [](auto value) { return static_cast<i64>(value); };
    auto const unsigned_order = [](auto value) { return flipped(value); };
    auto const float_order = [](auto value) { return ordered(value); };
    bool const flip = state.order == Order::Unsigned;
    switch (type.id) {
        case TypeId::Bool:
            for (u32 i = 0; i < count; ++i) scratch[i] = bit_at(view, i) ? 1 : 0;
            break;
        case TypeId::Int8: convert<std::int8_t>(view, count, scratch, plain); break;
        case TypeId::Int16: convert<std::int16_t>(view, count, scratch, plain); break;
        case TypeId::Int32:
        case TypeId::Date32: convert<std::int32_t>(view, count, scratch, plain); break;
        case TypeId::Int64:
            if (view.validity == nullptr &&
                reinterpret_cast<std::uintptr_t>(view.values) % 8 == 0) {
                return values_of<i64>(view);
            }
            convert<i64>(view, count, scratch, plain);
            break;
        case TypeId::UInt8: convert<u8>(view, count, scratch, plain); break;
        case TypeId::UInt16: convert<u16>(view, count, scratch, plain); break;
        case TypeId::UInt32: convert<u32>(view, count, scratch, plain); break;
        case TypeId::UInt64:
            if (flip) {
                convert<u64>(view, count, scratch, unsigned_order);
            } else {
                convert<u64>(view, count, scratch, plain);
            }
            break;
        case TypeId::Float32: convert<float>(view, count, scratch, float_order); break;
        case TypeId::Float64: convert<double>(view, count, scratch, float_order); break;
        case TypeId::Decimal128: narrow_decimals(view, count, scratch); break;
        default: throw Error(ErrorCode::Internal, "no words of a column of " + type.to_string());
    }
    if (view.validity != nullptr) {
        i64 const none = neutral(state.fold);
        for (u32 i = 0; i < count; ++i) {
            if (!valid_at(view, i)) scratch[i] = none;
        }
    }
    return scratch;
}

i128 const* wide_of(State const& state, Type const& type, ColumnView const& view, u32 count,
                    i128* scratch) {
    switch (type.id) {
        case TypeId::Decimal128: {
            auto const* const from = values_of<Stored128>(view);
            for (u32 i = 0; i < count; ++i) scratch[i] = load(from + i).get();
            break;
        }
        case TypeId::Int64:
            for (u32 i = 0; i < count; ++i) scratch[i] = load(values_of<i64>(view) + i);
            break;
        case TypeId::UInt64:
            for (u32 i = 0; i < count; ++i) scratch[i] = load(values_of<u64>(view) + i);
            break;
        default: {
            i64 words[kVector];
            i64 const* const from = words_of(state, type, view, count, words);
            for (u32 i = 0; i < count; ++i) scratch[i] = from[i];
        }
    }
    if (view.validity != nullptr) {
        i128 const none = neutral128(state.fold);
        for (u32 i = 0; i < count; ++i) {
            if (!valid_at(view, i)) scratch[i] = none;
        }
    }
    return scratch;
}

// Values as doubles; a decimal's digits as if it had no scale. What lies behind nulls is anything.
double const* numbers_of(State const& state, Type const& type, ColumnView const& view, u32 count,
                         double* to) {
    switch (type.id) {
        case TypeId::Float32:
            for (u32 i = 0; i < count; ++i) to[i] = load(values_of<float>(view) + i);
            return to;
        case TypeId::Float64:
            if (reinterpret_cast<std::uintptr_t>(view.values) % 8 == 0) {
                return values_of<double>(view);
            }
            for (u32 i = 0; i < count; ++i) to[i] = load(values_of<double>(view) + i);
            return to;
        case TypeId::UInt64:
            for (u32 i = 0; i < count; ++i) to[i] = double(load(values_of<u64>(view) + i));
            return to;
        case TypeId::Decimal128: {
            auto const* const from = values_of<Stored128>(view);
            for (u32 i = 0; i < count; ++i) to[i] = double(load(from + i).get());
            return to;
        }
        default: {
            i64 words[kVector];
            i64 const* const from = words_of(state, type, view, count, words);
            for (u32 i = 0; i < count; ++i) to[i] = double(from[i]);
            return to;
        }
    }
}

// The same with 0 behind nulls.
double const* summands_of(State const& state, Type const& type, ColumnView const& view, u32 count,
                          double* scratch) {
    double const* const values = numbers_of(state, type, view, count, scratch);
    if (view.validity == nullptr) return values;
    for (u32 i = 0; i < count; ++i) scratch[i] = valid_at(view, i) ? values[i] : 0;
    return scratch;
}

void fold_words(State const& state, i64 const* values, u32 count, char* const* rows) {
    u32 const offset = state.offset;
    if (state.fold == Fold::Min64) {
        for (u32 i = 0; i < count; ++i) {
            i64& at = state_at<i64>(rows[i], offset);
            at = values[i] < at ? values[i] : at;
        }
    } else if (state.fold == Fold::Max64) {
        for (u32 i = 0; i < count; ++i) {
            i64& at = state_at<i64>(rows[i], offset);
            at = values[i] > at ? values[i] : at;
        }
    } else {
        bool overflow = false;
        for (u32 i = 0; i < count; ++i) {
            i64& at = state_at<i64>(rows[i], offset);
            overflow |= __builtin_add_overflow(at, values[i], &at);
        }
        if (overflow) throw NarrowOverflow{};
    }
}

void fold_wide(State const& state, i128 const* values, u32 count, char* const* rows) {
    bool overflow = false;
    for (u32 i = 0; i < count; ++i) {
        auto& at = *reinterpret_cast<Stored128*>(rows[i] + state.offset);
        i128 now = at.get();
        if (state.fold == Fold::Min128) {
            now = values[i] < now ? values[i] : now;
        } else if (state.fold == Fold::Max128) {
            now = values[i] > now ? values[i] : now;
        } else {
            overflow |= __builtin_add_overflow(now, values[i], &now);
        }
        at.set(now);
    }
    if (overflow) throw NarrowOverflow{};
}

// Sums that travel, which are folded as they are.
template <class Sum>
void fold_sums(State const& state, ColumnView const& view, u32 count, char* const* rows) {
    auto const* const from = values_of<Stored<Sum>>(view);
    for (u32 i = 0; i < count; ++i) {
        state_at<Sum>(rows[i], state.offset).add(load(from + i).value);
    }
}
bool is_sums(Type const& type) {
    return type.id == TypeId::FixedSizeBinary;
}

void fold_moments(State const& state, double const* values, ColumnView const& view, u32 count,
                  char* const* rows) {
    for (u32 i = 0; i < count; ++i) {
        if (valid_at(view, i)) state_at<Moments>(rows[i], state.offset).add(values[i]);
    }
}

bool is_behind(Fold fold, int order) {
    return fold == Fold::MinText || fold == Fold::MinBytes ? order < 0 : order > 0;
}

// A value of fixed width, at any address.
void fold_bytes(State const& state, char const* value, char* row) {
    char* const now = row + state.offset;
    if (is_behind(state.fold, std::memcmp(value, now, state.width))) {
        std::memcpy(now, value, state.width);
    }
}

bool has_room(RowText const& state, u32 size) {
    return !is_no_text(state) && state.is_long() && state.size() >= size;
}

bool replaces(Fold fold, Text candidate, RowText const& now) {
    if (is_no_text(now)) return true;
    return is_behind(fold, compare(candidate, now.text()));
}

void fold_texts(State const& state, ColumnView const& view, u32 count, char* const* rows,
                TextArena& texts) {
    for (u32 i = 0; i < count; ++i) {
        if (!valid_at(view, i)) continue;
        Text const candidate = text_at(view, i);
        RowText const now = RowText::at(rows[i] + state.offset);
        if (!replaces(state.fold, candidate, now)) continue;
        RowText next(candidate);
        if (next.is_long()) {
            char* const room = has_room(now, next.size()) ? const_cast<char*>(now.data())
                                                          : texts.room(next.size());
            std::memcpy(room, candidate.data, next.size());
            next.point_to(room);
        }
        next.store(rows[i] + state.offset);
    }
}

}  // namespace

u32 State::bytes() const {
    switch (fold) {
        case Fold::Sum128:
        case Fold::Min128:
        case Fold::Max128:
        case Fold::MinText:
        case Fold::MaxText: return 16;
        case Fold::Sum192: return sizeof(LongSum);
        case Fold::SumFloat: return sizeof(FloatSum);
        case Fold::MinBytes:
        case Fold::MaxBytes: return (width + 7) / 8 * 8;
        case Fold::Moments:
        case Fold::MomentsOfMany: return sizeof(Moments);
        default: return 8;
    }
}

Type State::type() const {
    switch (fold) {
        case Fold::MinText:
        case Fold::MaxText: return binary();
        case Fold::Sum128:
        case Fold::Min128:
        case Fold::Max128: return decimal128(38, 0);
        case Fold::Sum192:
        case Fold::SumFloat:
        case Fold::MinBytes:
        case Fold::MaxBytes:
        case Fold::Moments:
        case Fold::MomentsOfMany: return fixed_size_binary(std::int32_t(bytes()));
        default: return int64();
    }
}

void append_empty_state(State const& state, std::vector<char>& row) {
    std::size_t const at = row.size();
    row.resize(at + state.bytes(), 0);
    char* const to = row.data() + at;
    switch (state.fold) {
        case Fold::MinText:
        case Fold::MaxText: std::memcpy(to, &kNoText, sizeof(kNoText)); break;
        case Fold::MinBytes: std::memset(to, 0xff, state.width); break;
        case Fold::Min128:
        case Fold::Max128: {
            i128 const value = neutral128(state.fold);
            std::memcpy(to, &value, sizeof(value));
            break;
        }
        case Fold::Min64:
        case Fold::Max64: {
            i64 const value = neutral(state.fold);
            std::memcpy(to, &value, sizeof(value));
            break;
        }
        default: break;
    }
}

bool is_no_text(RowText const& state) {
    return state.size() == kNoText;
}

State travelling(State state) {
    state.order = Order::Signed;
    bool const count = state.fold == Fold::CountRows || state.fold == Fold::CountValid ||
                       state.fold == Fold::CountBits;
    if (count) state.fold = Fold::Sum64;
    if (state.fold == Fold::Moments) state.fold = Fold::MomentsOfMany;
    return state;
}

void fold_values(State const& state, Type const& type, ColumnView const& view, u32 count,
                 char* const* rows, TextArena& texts, FoldScratch& scratch) {
    switch (state.fold) {
        case Fold::CountRows:
            for (u32 i = 0; i < count; ++i) ++state_at<i64>(rows[i], state.offset);
            return;
        case Fold::CountValid:
            for (u32 i = 0; i < count; ++i) {
                state_at<i64>(rows[i], state.offset) += valid_at(view, i) ? 1 : 0;
            }
            return;
        case Fold::CountBits:
            for (u32 i = 0; i < count; ++i) {
                state_at<i64>(rows[i], state.offset) += bit_at(view, i) ? 1 : 0;
            }
            return;
        case Fold::Sum64:
        case Fold::Min64:
        case Fold::Max64:
            return fold_words(state, words_of(state, type, view, count, scratch.words), count,
                              rows);
        case Fold::Sum128:
        case Fold::Min128:
        case Fold::Max128:
            return fold_wide(state, wide_of(state, type, view, count, scratch.wide), count, rows);
        case Fold::Sum192: {
            if (is_sums(type)) return fold_sums<LongSum>(state, view, count, rows);
            i128 const* const values = wide_of(state, type, view, count, scratch.wide);
            for (u32 i = 0; i < count; ++i) {
                state_at<LongSum>(rows[i], state.offset).add(values[i]);
            }
            return;
        }
        case Fold::SumFloat: {
            if (is_sums(type)) return fold_sums<FloatSum>(state, view, count, rows);
            double const* const values = summands_of(state, type, view, count, scratch.floats);
            for (u32 i = 0; i < count; ++i) {
                state_at<FloatSum>(rows[i], state.offset).add(values[i]);
            }
            return;
        }
        case Fold::MinText:
        case Fold::MaxText: return fold_texts(state, view, count, rows, texts);
        case Fold::MinBytes:
        case Fold::MaxBytes: {
            // Those that travel are wider than the values.
            u32 const width = type.row_width();
            auto const* const from = static_cast<char const*>(view.values) + view.offset * width;
            for (u32 i = 0; i < count; ++i) {
                if (valid_at(view, i)) fold_bytes(state, from + u64{i} * width, rows[i]);
            }
            return;
        }
        case Fold::Moments:
            return fold_moments(state, numbers_of(state, type, view, count, scratch.floats), view,
                                count, rows);
        case Fold::MomentsOfMany:
            for (u32 i = 0; i < count; ++i) {
                state_at<Moments>(rows[i], state.offset).add(load(values_of<Moments>(view) + i));
            }
            return;
        case Fold::CountPairs: return;
    }
}

void fold_rows(State const& state, char const* const* from, u32 count, char* const* rows) {
    u32 const offset = state.offset;
    if (state_is_text(state.fold)) {
        for (u32 i = 0; i < count; ++i) {
            RowText const other = RowText::at(from[i] + offset);
            if (is_no_text(other)) continue;
            if (replaces(state.fold, other.text(), RowText::at(rows[i] + offset))) {
                other.store(rows[i] + offset);
            }
        }
        return;
    }
    for (u32 i = 0; i < count; ++i) {
        char const* const at = from[i] + offset;
        if (state.fold == Fold::SumFloat) {
            state_at<FloatSum>(rows[i], offset).add(load(reinterpret_cast<FloatSum const*>(at)));
        } else if (state.fold == Fold::Sum192) {
            state_at<LongSum>(rows[i], offset).add(load(reinterpret_cast<LongSum const*>(at)));
        } else if (state.fold == Fold::Moments) {
            state_at<Moments>(rows[i], offset).add(load(reinterpret_cast<Moments const*>(at)));
        } else if (state.fold == Fold::MinBytes || state.fold == Fold::MaxBytes) {
            fold_bytes(state, at, rows[i]);
        } else if (state.bytes() == 16) {
            i128 const value = load(reinterpret_cast<Stored128 const*>(at)).get();
            fold_wide(state, &value, 1, rows + i);
        } else {
            i64 const value = load(reinterpret_cast<i64 const*>(at));
            fold_words(state, &value, 1, rows + i);
        }
    }
}

void narrow_decimals(ColumnView const& view, u32 count, i64* to) {
    auto const* const from = values_of<Stored128>(view);
    u64 beyond = 0;
    for (u32 i = 0; i < count; ++i) {
        Stored128 const value = load(from + i);
        to[i] = static_cast<i64>(value.low);
        beyond |= static_cast<u64>(value.high ^ (to[i] >> 63));
    }
    // A value with more digits than its type says.
    if (beyond != 0) throw NarrowOverflow{};
}

i64 ordered(double value) {
    if (value != value) return kHighest;
    auto const bits = std::bit_cast<i64>(value);
    return bits ^ static_cast<i64>(static_cast<u64>(bits >> 63) >> 1);
}

double from_ordered(i64 word) {
    if (word == kHighest) return std::numeric_limits<double>::quiet_NaN();
    return std::bit_cast<double>(word ^ static_cast<i64>(static_cast<u64>(word >> 63) >> 1));
}

}  // namespace mgi::operators
