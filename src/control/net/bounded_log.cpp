#include "control/net/bounded_log.hpp"

#include <algorithm>

#include "core/log.hpp"

namespace mgi::control::net {

void BoundedLog::warn(std::string const& line, Time now) {
    std::uint64_t before = 0;
    {
        std::lock_guard const lock(mutex_);
        auto const earned = (now - earned_) / kPause;
        if (earned > 0) {
            lines_ = static_cast<std::uint32_t>(
                std::min<std::int64_t>(kLines, std::int64_t{lines_} + earned));
            earned_ = now;
        }
        if (lines_ == 0) {
            ++left_out_;
            return;
        }
        --lines_;
        before = std::exchange(left_out_, 0);
    }
    if (before == 0) {
        log::warn("{}", line);
    } else {
        log::warn("{} ({} such lines before it were left out)", line, before);
    }
}

std::uint64_t BoundedLog::left_out() const {
    std::lock_guard const lock(mutex_);
    return left_out_;
}

}  // namespace mgi::control::net
