#include "operators/sort_words.hpp"

#include <algorithm>
#include <bit>

namespace mgi::operators {

namespace {

constexpr u32 kDigitBits = 8;
constexpr u32 kDigits = 1u << kDigitBits;
// So few are sorted by comparing.
constexpr u64 kFew = 128;
// So many lie in a second-level cache twice: they are sorted from the last digit on. More are dealt out by their
// first one, until they are so few.
constexpr u64 kInCache = u64{1} << 15;

u32 digit_of(u64 word, u32 shift) {
    return u32(word >> shift) & (kDigits - 1);
}

// Where each digit's entries begin, of how many there are.
void sum_up(u64 const* counts, u64* begins) {
    u64 sum = 0;
    for (u32 d = 0; d < kDigits; ++d) {
        begins[d] = sum;
        sum += counts[d];
    }
}

void deal_out(SortEntry const* from, SortEntry* to, u64 count, u32 shift, u64* begins) {
    for (u64 i = 0; i < count; ++i) to[begins[digit_of(from[i].word, shift)]++] = from[i];
}

void count_digits(SortEntry const* from, u64 count, u32 shift, u64* counts) {
    std::fill_n(counts, kDigits, u64{0});
    for (u64 i = 0; i < count; ++i) ++counts[digit_of(from[i].word, shift)];
}

// `into_other`: the result is to lie in `other`, else where the entries are.
void sort_into(SortEntry* from, SortEntry* other, u64 count, bool into_other,
               std::function<void()> const& check);

// Words differ in the bits of `varying` alone.
void sort_from_last(SortEntry* from, SortEntry* other, u64 count, u64 varying, bool into_other) {
    u64 counts[kDigits];
    u64 begins[kDigits];
    for (u32 shift = 0; shift < 64; shift += kDigitBits) {
        if (digit_of(varying, shift) == 0) continue;
        count_digits(from, count, shift, counts);
        sum_up(counts, begins);
        deal_out(from, other, count, shift, begins);
        std::swap(from, other);
        into_other = !into_other;
    }
    if (into_other) std::copy_n(from, count, other);
}

void sort_from_first(SortEntry* from, SortEntry* other, u64 count, u64 varying, bool into_other,
                     std::function<void()> const& check) {
    check();
    u32 const width = u32(std::bit_width(varying));
    u32 const shift = width > kDigitBits ? width - kDigitBits : 0;
    u64 counts[kDigits];
    u64 begins[kDigits];
    count_digits(from, count, shift, counts);
    sum_up(counts, begins);
    deal_out(from, other, count, shift, begins);
    for (u32 d = 0; d < kDigits; ++d) {
        u64 const begin = begins[d] - counts[d];
        sort_into(other + begin, from + begin, counts[d], !into_other, check);
    }
}

void sort_into(SortEntry* from, SortEntry* other, u64 count, bool into_other,
               std::function<void()> const& check) {
    if (count == 0) return;
    u64 varying = 0;
    for (u64 i = 1; i < count; ++i) varying |= from[i].word ^ from[0].word;
    if (varying != 0 && count > kInCache) {
        return sort_from_first(from, other, count, varying, into_other, check);
    }
    if (varying != 0 && count > kFew) {
        return sort_from_last(from, other, count, varying, into_other);
    }
    if (varying != 0) {
        std::sort(from, from + count,
                  [](SortEntry const& a, SortEntry const& b) { return a.word < b.word; });
    }
    if (into_other) std::copy_n(from, count, other);
}

}  // namespace

void sort_words(SortEntry* at, SortEntry* scratch, u64 count, std::function<void()> const& check) {
    sort_into(at, scratch, count, false, check);
}

}  // namespace mgi::operators
