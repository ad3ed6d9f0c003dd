/// \file
/// A topology file's text, and errors that say where in it something is wrong.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgi::topology {

inline constexpr std::size_t kMostFileBytes = 16u << 20;

class Source {
public:
    /// Takes the text as plain_text() gives it. Throws as `fail` does where it is no text in UTF-8, has a zero
    /// byte, is empty, or longer than kMostFileBytes.
    Source(std::string name, std::string text);
    /// Reads a file. Throws Error: NotFound for one that cannot be opened, else as above.
    static Source of_file(std::string const& path);

    [[nodiscard]] std::string const& name() const { return name_; }
    [[nodiscard]] std::string_view text() const { return text_; }
    /// Lines count from 1.
    [[nodiscard]] std::size_t line_of(std::size_t offset) const;

    /// Throws Error(InvalidArgument) "file:line: what"; line 0 is left out.
    [[noreturn]] void fail(std::size_t line, std::string const& what) const;

private:
    std::string name_;
    std::string text_;
    std::vector<std::size_t> line_ends_;
};

/// For an error message: what was found, in quotes, printable and not too long.
std::string in_quotes(std::string_view text);

}  // namespace mgi::topology
