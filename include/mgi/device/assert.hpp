/// \file
/// Assertions: what comments and docs promise of the code, checked while it runs. A build has them or not
/// (MGI_ASSERTIONS=1; see CONTRIBUTING.md); nvcc's code never does.
#pragma once

#include <mgi/device/standard.hpp>

#if defined(MGI_ASSERTIONS) && MGI_ASSERTIONS && !defined(__CUDACC__)
#define MGI_ASSERTIONS_ACTIVE 1
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#else
#define MGI_ASSERTIONS_ACTIVE 0
#endif

/// MGI_ASSERT(condition, values...): ends the program where the condition does not hold, and says what the
/// values are:
///
///     mgi: invariant broken at include/mgi/device/lane.hpp:212: taken <= capacity (taken = 17, capacity = 16)
///
/// Values are integers, enums, bools, pointers and texts. Neither condition nor values may change anything or
/// load an atomic word; without assertions none of them is evaluated.
#if MGI_ASSERTIONS_ACTIVE
#define MGI_ASSERT(condition, ...)                     \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::mgi::device::broken_invariant(            \
               {__FILE__, __LINE__, #condition, "" #__VA_ARGS__} __VA_OPT__(, ) __VA_ARGS__))
#else
#define MGI_ASSERT(condition, ...)                         \
    static_cast<void>(sizeof(static_cast<bool>(condition)) \
                          __VA_OPT__(+sizeof(::mgi::device::not_evaluated(__VA_ARGS__))))
#endif

namespace mgi::device {

#if MGI_ASSERTIONS_ACTIVE

/// Is told of a broken invariant instead of standard error, for programs that have more to say about it. When
/// it returns the program ends. Set before other threads are there.
inline void (*on_broken_invariant)(char const* message) = nullptr;

/// An assertion's place and text.
struct Assertion {
    char const* file;
    int line;
    char const* condition;
    char const* names;  ///< of its values, as they stand in the source
};

/// Any value of an assertion.
class AssertedValue {
public:
    AssertedValue() = default;
    template <class T>
    explicit AssertedValue(T value) {
        if constexpr (std::is_convertible_v<T, std::string_view>) {
            kind_ = Kind::Text;
            text_ = std::string_view(value);
        } else if constexpr (std::is_same_v<T, bool>) {
            kind_ = Kind::Text;
            text_ = value ? "true" : "false";
        } else if constexpr (std::is_null_pointer_v<T> || std::is_pointer_v<T>) {
            kind_ = Kind::Pointer;
            number_ = reinterpret_cast<std::uintptr_t>(value);
        } else if constexpr (std::is_enum_v<T>) {
            *this = AssertedValue(static_cast<std::underlying_type_t<T>>(value));
        } else if constexpr (std::is_floating_point_v<T>) {
            kind_ = Kind::Real;
            real_ = static_cast<double>(value);
        } else {
            static_assert(std::is_integral_v<T>, "no value that an assertion can print");
            kind_ = std::is_signed_v<T> ? Kind::Signed : Kind::Unsigned;
            number_ = static_cast<std::uint64_t>(value);
        }
    }

    /// What it takes, without the zero behind it, as snprintf says it.
    int print(char* to, std::size_t size) const {
        switch (kind_) {
            case Kind::Signed:
                return std::snprintf(to, size, "%lld", static_cast<long long>(number_));
            case Kind::Unsigned:
                return std::snprintf(to, size, "%llu", static_cast<unsigned long long>(number_));
            case Kind::Pointer:
                return std::snprintf(to, size, "0x%llx", static_cast<unsigned long long>(number_));
            case Kind::Real: return std::snprintf(to, size, "%g", real_);
            case Kind::Text:
                return std::snprintf(to, size, "%.*s", static_cast<int>(text_.size()),
                                     text_.data());
        }
        return 0;
    }

private:
    enum class Kind : std::uint8_t { Signed, Unsigned, Pointer, Real, Text };
    Kind kind_ = Kind::Unsigned;
    std::uint64_t number_ = 0;
    double real_ = 0;
    std::string_view text_;
};

/// A message of bounded length, made without allocating.
class AssertionText {
public:
    AssertionText(Assertion const& what, AssertedValue const* values, std::size_t count) {
        put("mgi: invariant broken at ");
        put(from_root(what.file));
        put(":");
        put(AssertedValue(what.line));
        put(": ");
        put(what.condition);
        char const* names = what.names;
        for (std::size_t i = 0; i < count; ++i) {
            put(i == 0 ? " (" : ", ");
            put(next_name(names));
            put(" = ");
            put(values[i]);
        }
        if (count != 0) put(")");
    }
    [[nodiscard]] char const* text() const { return text_; }

private:
    void put(std::string_view piece) { put(AssertedValue(piece)); }
    void put(AssertedValue const& value) {
        int const size = value.print(text_ + used_, sizeof(text_) - used_);
        if (size > 0) used_ += static_cast<std::size_t>(size);
        if (used_ >= sizeof(text_)) used_ = sizeof(text_) - 1;
    }
    /// The path of a source of this tree from the tree's root on.
    static std::string_view from_root(std::string_view file) {
        std::string_view root = __FILE__;
        root.remove_suffix(sizeof("include/mgi/device/assert.hpp") - 1);
        if (file.substr(0, root.size()) == root) file.remove_prefix(root.size());
        return file;
    }
    /// The text of an argument, up to the comma behind it; `names` is left behind that.
    static std::string_view next_name(char const*& names) {
        while (*names == ' ') ++names;
        char const* const from = names;
        int depth = 0;
        for (; *names != 0 && (*names != ',' || depth != 0); ++names) {
            if (*names == '(') ++depth;
            if (*names == ')') --depth;
        }
        std::string_view const name(from, static_cast<std::size_t>(names - from));
        if (*names == ',') ++names;
        return name;
    }

    char text_[1024] = {};
    std::size_t used_ = 0;
};

/// Says which invariant is broken, and ends the program.
[[noreturn]] [[gnu::cold]] __attribute__((noinline)) inline void end_with(
    Assertion const& what, AssertedValue const* values, std::size_t count) {
    AssertionText const message(what, values, count);
    if (on_broken_invariant != nullptr) {
        on_broken_invariant(message.text());
    } else {
        std::fputs(message.text(), stderr);
        std::fputs("\n", stderr);
    }
    std::abort();
}

/// Out of line, and by value: what is checked keeps its registers.
template <class... Values>
[[noreturn]] [[gnu::cold]] __attribute__((noinline)) void broken_invariant(Assertion what,
                                                                           Values... values) {
    // One more than there are, since an array has one at least.
    AssertedValue const all[] = {AssertedValue(values)..., AssertedValue()};
    end_with(what, all, sizeof...(values));
}

#else

/// Names an assertion's values where there are none; never called. NVRTC knows no host's functions.
template <class... Values>
#if defined(__CUDACC__)
__host__ __device__
#endif
    char
    not_evaluated(Values const&... values);

#endif

}  // namespace mgi::device
