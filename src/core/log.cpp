#include "core/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <atomic>
#include <cstdlib>
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
    spdlog::level::level_enum theirs;
};

constexpr std::array<Name, 6> kNames{{{"trace", Level::Trace, spdlog::level::trace},
                                      {"debug", Level::Debug, spdlog::level::debug},
                                      {"info", Level::Info, spdlog::level::info},
                                      {"warn", Level::Warn, spdlog::level::warn},
                                      {"error", Level::Error, spdlog::level::err},
                                      {"off", Level::Off, spdlog::level::off}}};

std::optional<Level> level_named(std::string_view text) noexcept {
    for (Name const& name : kNames) {
        if (text == name.text) return name.level;
    }
    return std::nullopt;
}

/// The logger and its level. Never destroyed, so that threads may log until the process ends.
struct State {
    std::atomic<Level> level{Level::Warn};
    std::unique_ptr<spdlog::logger> logger;

    State() {
        logger = std::make_unique<spdlog::logger>(
            "mgi", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        logger->set_level(spdlog::level::trace);
        logger->set_pattern("%H:%M:%S.%e mgi %l: %v");
        // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, while the state is made
        char const* const wanted = std::getenv("MGI_LOG");
        if (wanted == nullptr || *wanted == '\0') return;
        if (auto const named = level_named(wanted)) {
            level = *named;
        } else {
            logger->warn(
                "MGI_LOG=\"{}\" is not a level; trace, debug, info, warn, error and off are",
                wanted);
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
        state()->logger->log(kNames[std::size_t(level)].theirs,
                             spdlog::string_view_t(message.data(), message.size()));
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
