#include "core/log.hpp"

#if MGI_WITH_SPDLOG
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#endif

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

namespace mgi {
namespace log {
namespace {

struct Name {
    char const* text;
    Level level;
};

constexpr std::array<Name, 6> kNames{{{"trace", Level::Trace},
                                      {"debug", Level::Debug},
                                      {"info", Level::Info},
                                      {"warn", Level::Warn},
                                      {"error", Level::Error},
                                      {"off", Level::Off}}};

std::optional<Level> level_named(std::string_view text) noexcept {
    for (Name const& name : kNames) {
        if (text == name.text) return name.level;
    }
    return std::nullopt;
}

#if MGI_WITH_SPDLOG

class Sink {
public:
    Sink() : logger_("mgi", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
        logger_.set_level(spdlog::level::trace);
        logger_.set_pattern("%H:%M:%S.%e mgi %l: %v");
    }
    void write(Level level, std::string_view message) {
        static constexpr std::array<spdlog::level::level_enum, 6> kTheirs{
            spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
            spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
        logger_.log(kTheirs[std::size_t(level)],
                    spdlog::string_view_t(message.data(), message.size()));
    }

private:
    spdlog::logger logger_;
};

#else

/// The same lines, written by hand.
class Sink {
public:
    static void write(Level level, std::string_view message) {
        auto const now = std::chrono::system_clock::now().time_since_epoch();
        auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
        std::time_t const seconds = static_cast<std::time_t>(ms / 1000);
        std::tm time{};
        localtime_r(&seconds, &time);
        char const* const name = level == Level::Warn ? "warning" : kNames[std::size_t(level)].text;
        // One call, which locks the stream: lines of several threads stay whole.
        std::fprintf(stderr, "%02d:%02d:%02d.%03d mgi %s: %.*s\n", time.tm_hour, time.tm_min,
                     time.tm_sec, static_cast<int>(ms % 1000), name,
                     static_cast<int>(message.size()), message.data());
    }
};

#endif

/// Where lines go, and their level. Never destroyed, so that threads may log until the process ends.
struct State {
    std::atomic<Level> level{Level::Warn};
    Sink sink;

    State() {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, while the state is made
        char const* const wanted = std::getenv("MGI_LOG");
        if (wanted == nullptr || *wanted == '\0') return;
        if (auto const named = level_named(wanted)) {
            level = *named;
        } else {
            sink.write(Level::Warn, formatted("MGI_LOG=\"{}\" is not a level; trace, debug, info, "
                                              "warn, error and off are",
                                              wanted));
        }
    }
};

/// Null when there is not even the memory for a logger.
State* state() noexcept {
    static State* const kept = []() -> State* {
        try {
            return new State;
        } catch (...) {
            return nullptr;
        }
    }();
    return kept;
}

}  // namespace

bool enabled(Level level) noexcept {
    State const* const kept = state();
    return kept != nullptr && level != Level::Off &&
           level >= kept->level.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message) noexcept {
    if (!enabled(level)) return;
    try {
        state()->sink.write(level, message);
    } catch (...) {
        return;  // a log line is not worth a failure
    }
}

}  // namespace log

void set_log_level(std::string const& level) {
    auto const named = log::level_named(level);
    if (!named) {
        throw Error(ErrorCode::InvalidArgument,
                    "log level \"" + level +
                        "\" does not exist; choose trace, debug, info, warn, error or off");
    }
    if (log::State* const kept = log::state()) {
        kept->level.store(*named, std::memory_order_relaxed);
    }
}

}  // namespace mgi
