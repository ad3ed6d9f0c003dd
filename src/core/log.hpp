/// \file
/// Logging, to standard error. The environment variable MGI_LOG sets the level at the start,
/// set_log_level (mgi/runtime.hpp) at run time; the default is "warn". A message below the level
/// costs one load. Thread-safe; nothing here throws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/format.hpp"

namespace mgi::log {

enum class Level : std::uint8_t { Trace, Debug, Info, Warn, Error, Off };

/// Whether a message of this level would be written.
[[nodiscard]] bool enabled(Level level) noexcept;

/// Writes one line.
void write(Level level, std::string_view message) noexcept;

template <class... Args>
void format(Level level, FormatText<Args...> text, Args&&... args) noexcept {
    if (!enabled(level)) return;
    try {
        write(level, formatted(text, std::forward<Args>(args)...));
    } catch (...) {
        write(level, "(a log message could not be formatted)");
    }
}

template <class... Args>
void trace(FormatText<Args...> text, Args&&... args) noexcept {
    format(Level::Trace, text, std::forward<Args>(args)...);
}
template <class... Args>
void debug(FormatText<Args...> text, Args&&... args) noexcept {
    format(Level::Debug, text, std::forward<Args>(args)...);
}
template <class... Args>
void info(FormatText<Args...> text, Args&&... args) noexcept {
    format(Level::Info, text, std::forward<Args>(args)...);
}
template <class... Args>
void warn(FormatText<Args...> text, Args&&... args) noexcept {
    format(Level::Warn, text, std::forward<Args>(args)...);
}
template <class... Args>
void error(FormatText<Args...> text, Args&&... args) noexcept {
    format(Level::Error, text, std::forward<Args>(args)...);
}

}  // namespace mgi::log
