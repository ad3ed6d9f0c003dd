#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operators/columns.hpp"

namespace mgi::operators {
namespace {

constexpr u32 kLongest = 80;

std::string characters(u32 size) {
    std::string text;
    for (u32 i = 0; i < size; ++i) text += char('a' + (i * 7 + size) % 26);
    return text;
}

bool same_words(RowText const& a, RowText const& b) {
    return std::memcmp(static_cast<void const*>(&a), static_cast<void const*>(&b), sizeof(a)) == 0;
}

TEST(RowText, HoldsEverySize) {
    for (u32 size = 0; size <= kLongest; ++size) {
        std::string const text = characters(size);
        RowText const row(Text{text.data(), size});
        EXPECT_EQ(row.size(), size);
        EXPECT_EQ(row.is_long(), size > RowText::kInline);
        Text const now = row.text();
        EXPECT_EQ(std::string(now.data, now.size), text);
        EXPECT_TRUE(!row.is_long() || row.data() == text.data());
    }
}

TEST(RowText, IsTheSameWhateverFollows) {
    for (u32 size = 0; size <= kLongest; ++size) {
        std::string const text = characters(size) + "what follows it";
        RowText const careful(Text{text.data(), size});
        EXPECT_TRUE(same_words(careful, RowText::with_others_behind({text.data(), size}))) << size;
    }
}

TEST(RowText, OfAViewDropsWhatIsNoneOfIt) {
    for (u32 size = 0; size <= kLongest; ++size) {
        std::string const text = characters(size);
        device::StringView16 view;
        std::memset(static_cast<void*>(&view), 0x5a, sizeof(view));
        view.length = size;
        std::string const block = "before" + text;
        char const* const buffers[] = {nullptr, block.data()};
        if (size <= device::StringView16::kInline) {
            if (size != 0) std::memcpy(view.text, text.data(), size);
        } else {
            std::memcpy(view.ref.prefix, text.data(), 4);
            view.ref.buffer = 1;
            view.ref.offset = 6;
        }
        RowText const expected(Text{block.data() + 6, size});
        EXPECT_TRUE(same_words(expected, RowText(view, buffers))) << size;
    }
}

TEST(RowText, ColumnOfOffsetsEndsWhereItsCharactersDo) {
    // On the heap without a byte behind it: AddressSanitizer sees a load beyond the last text.
    std::vector<std::int32_t> offsets{0};
    std::vector<char> chars;
    for (u32 i = 0; i < 40; ++i) {
        std::string const text = characters(i % 15);
        chars.insert(chars.end(), text.begin(), text.end());
        offsets.push_back(static_cast<std::int32_t>(chars.size()));
    }
    chars.shrink_to_fit();
    ColumnView view;
    view.encoding = device::InputEncoding::Offsets32;
    view.values = offsets.data();
    view.bytes = chars.data();
    for (u32 const told : {0u, 40u}) {
        RowTexts const texts(view, false, told);
        for (u32 i = 0; i < 40; ++i) {
            EXPECT_TRUE(same_words(texts.or_none(i), RowText(text_at(view, i)))) << i;
        }
    }
}

TEST(CopyLong, EverySize) {
    for (u32 size = RowText::kInline + 1; size <= 3 * kLongest; ++size) {
        std::string const text = characters(size);
        std::vector<char> to(size);
        copy_long(to.data(), text.data(), size);
        EXPECT_EQ(std::string(to.begin(), to.end()), text);
    }
}

}  // namespace
}  // namespace mgi::operators
