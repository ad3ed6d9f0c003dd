/// \file
/// Warnings that strangers cause: some lines at once, then one every while that counts those left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace mgi::control::net {

/// Thread-safe.
class BoundedLog {
public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::uint32_t kLines = 10;
    static constexpr std::chrono::seconds kPause{10};

    void warn(std::string const& line) { warn(line, std::chrono::steady_clock::now()); }
    void warn(std::string const& line, Time now);
    [[nodiscard]] std::uint64_t left_out() const;

private:
    mutable std::mutex mutex_;
    std::uint32_t lines_ = kLines;  ///< that may follow at once
    Time earned_{};                 ///< when the last of them was earned
    std::uint64_t left_out_ = 0;
};

}  // namespace mgi::control::net
