// Keys that count in units of other sizes: seconds and milliseconds, decimals of other scales, days and instants. The finer
// side's values become numbers of the coarser side's unit, in its type. That is exact and never leaves a range; a value that
// is no whole number of those units, or none of that type, is equal to nothing of the other side and becomes a null, which
// matches nothing either. Sides that count alike are compared as they lie. One source for g++ and nvcc.
#pragma once

#include <mgi/device/hash.hpp>

namespace mgi::operators {

// How integers of one form become those of another, in two's complement.
struct KeyConversion {
    device::u8 from = 0;  // bytes of a value: up to 8, 16 or 32
    device::u8 to = 0;
    bool from_signed = true;
    bool to_signed = true;
    device::u64 units = 1;  // finer ones in a coarser one; 0: 10^tens, which leaves 64 bits
    device::u32 tens = 0;   // of decimals: units are 10^tens

    friend bool operator==(KeyConversion const&, KeyConversion const&) = default;

    // Converts the value at `at`; false if the other form has none that is equal, and 0 is written. On a GPU values of up to
    // 16 bytes lie at multiples of their width.
    MGI_HD bool convert(char const* at, char* result) const;
};

// An integer of up to 256 bits by sign and size.
class KeyNumber {
public:
    MGI_HD KeyNumber(char const* at, device::u32 bytes, bool is_signed) {
        if (bytes <= 8) {
            words_[0] = is_signed ? device::u64(device::load_signed(at, bytes))
                                  : device::load_unsigned(at, bytes);
        } else {
            for (device::u32 w = 0; w < bytes / 8; ++w) words_[w] = load_word(at + 8 * w);
        }
        negative_ = is_signed && words_[bytes <= 8 ? 0 : bytes / 8 - 1] >> 63 != 0;
        for (device::u32 w = bytes <= 8 ? 1 : bytes / 8; negative_ && w < kWords; ++w) {
            words_[w] = ~device::u64{0};
        }
        if (negative_) negate();
    }

    [[nodiscard]] MGI_HD bool fits_word() const { return (words_[1] | words_[2] | words_[3]) == 0; }
    [[nodiscard]] MGI_HD bool is_zero() const { return fits_word() && words_[0] == 0; }
    // Divides a number that fits a word; false if that leaves a rest.
    MGI_HD bool divide_word(device::u64 by) {
        device::u64 const whole = words_[0] / by;
        bool const exact = whole * by == words_[0];
        words_[0] = whole;
        return exact;
    }
    // The same of any number, by a power of ten.
    MGI_HD bool divide_by_tens(device::u32 tens) {
        while (tens != 0 && !is_zero()) {
            device::u64 by = 1;
            for (device::u32 digits = 0; digits < kDigits && tens != 0; ++digits, --tens) by *= 10;
            device::u64 rest = 0;
            for (device::u32 half = 2 * kWords; half-- != 0;) {
                device::u32 const shift = 32 * (half % 2);
                device::u64& word = words_[half / 2];
                device::u64 const now = rest << 32 | (word >> shift & kLowHalf);
                word = (word & ~(kLowHalf << shift)) | now / by << shift;
                rest = now % by;
            }
            if (rest != 0) return false;
        }
        return true;
    }
    // False if so many bytes cannot hold it. It is no number afterwards.
    MGI_HD bool store(char* at, device::u32 bytes, bool is_signed) {
        if (negative_) negate();
        device::u64 const fill = negative_ ? ~device::u64{0} : 0;
        device::u32 const last = (bytes - 1) / 8;
        device::u32 const unused = 64 - 8 * (bytes - 8 * last);
        bool fits = is_signed || !negative_;
        for (device::u32 w = last + 1; w < kWords; ++w) fits = fits && words_[w] == fill;
        auto const top = device::i64(words_[last]);
        if (is_signed) {
            auto const kept = device::i64(device::u64(top) << unused) >> unused;
            fits = fits && kept == top && (top < 0) == negative_;
        } else {
            fits = fits && device::u64(top) << unused >> unused == device::u64(top);
        }
        if (fits) store_words(at, bytes);
        return fits;
    }

private:
    static constexpr device::u32 kWords = 4;
    static constexpr device::u32 kDigits =
        9;  // of a divisor: two halves of a word then hold what is divided
    static constexpr device::u64 kLowHalf = 0xffffffff;

    MGI_HD static bool is_aligned(char const* at) {
        return reinterpret_cast<device::u64>(at) % 8 == 0;
    }
    MGI_HD static device::u64 load_word(char const* at) {
        if (is_aligned(at)) return device::load_value<device::u64>(at);
        device::u64 word = 0;
        for (device::u32 b = 0; b < 8; ++b) word |= device::u64(device::u8(at[b])) << (8 * b);
        return word;
    }
    MGI_HD void store_words(char* at, device::u32 bytes) const {
        switch (bytes) {
            case 1: device::store_value(at, device::u8(words_[0])); return;
            case 2: device::store_value(at, device::u16(words_[0])); return;
            case 4: device::store_value(at, device::u32(words_[0])); return;
            default:
                for (device::u32 w = 0; w < bytes / 8; ++w) {
                    device::store_value(at + 8 * w, words_[w]);
                }
        }
    }
    MGI_HD void negate() {
        device::u64 carry = 1;
        for (device::u64& word : words_) {
            word = ~word + carry;
            carry = carry != 0 && word == 0 ? 1 : 0;
        }
    }

    device::u64 words_[kWords] = {};
    bool negative_ = false;
};

MGI_HD inline bool KeyConversion::convert(char const* at, char* result) const {
    KeyNumber number(at, from, from_signed);
    bool const exact =
        number.fits_word() && units != 0 ? number.divide_word(units) : number.divide_by_tens(tens);
    if (exact && number.store(result, to, to_signed)) return true;
    for (device::u32 b = 0; b < to; ++b) result[b] = 0;
    return false;
}

}  // namespace mgi::operators
