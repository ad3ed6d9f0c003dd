/// \file
/// What fuzz targets share: the input as a stream of choices, and the way a broken promise is said.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mgi::fuzz {

/// Fails the run: the code under test did what it may not. libFuzzer sees an exception that nobody
/// catches, the replay test a failure.
inline void require(bool kept, char const* promise, char const* but = "") {
    if (!kept) throw std::logic_error(std::string("broken promise: ") + promise + ". " + but);
}

/// A fuzzer's bytes, read from the front; zeros once they are used up.
class Input {
public:
    Input(std::uint8_t const* data, std::size_t size)
        : rest_(reinterpret_cast<char const*>(data), size) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }

    template <class T>
    T take() {
        T value{};
        std::size_t const bytes = std::min(sizeof(T), rest_.size());
        if (bytes != 0) std::memcpy(&value, rest_.data(), bytes);  // no input may have no address
        rest_.remove_prefix(bytes);
        return value;
    }
    /// In [0, bound), bound <= 256.
    std::uint32_t below(std::uint32_t bound) { return take<std::uint8_t>() % bound; }
    bool one_in(std::uint32_t chance) { return below(chance) == chance - 1; }

    /// A count or an offset: mostly small, now and then what arithmetic trips over.
    std::int64_t number() {
        constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
        switch (below(16)) {
            case 0: return -1;
            case 1: return kMost - below(200);
            case 2: return -kMost - 1 + below(200);
            case 3: return take<std::int64_t>();
            case 4: return take<std::int32_t>();
            case 5: return std::int64_t(1) << below(63);
            default: return below(80);
        }
    }

    /// Up to the next separator, which is taken, too.
    std::string_view until(char separator) {
        std::size_t const at = rest_.find(separator);
        std::string_view const part = rest_.substr(0, at);
        rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + 1);
        return part;
    }
    std::string_view all() {
        std::string_view const part = rest_;
        rest_ = {};
        return part;
    }

private:
    std::string_view rest_;
};

}  // namespace mgi::fuzz
