/// \file
/// How much of one limit is in use, and by which owner.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace mgi::control {

/// Owners share a limit by a dynamic threshold, as switches share their buffers (Choudhury and Hahne 1998):
/// one may have three times as much as is left for others then. So one owner alone has three quarters at
/// most, two three sevenths each, and whoever comes next finds room, however many there are. Remembers those
/// owners alone who use something. Not thread-safe.
class Shares {
public:
    /// `what` is limited, in the plural; `advice` is what an owner can do. Both stand in refusals.
    Shares(std::string_view what, std::size_t most, std::string_view advice)
        : what_(what), advice_(advice), most_(most) {}

    /// Why there is no room for `more`: names the limit, what the owner has and what to do. Empty: there is.
    [[nodiscard]] std::string refusal(std::string const& owner, std::size_t more = 1) const;
    /// Whether there is room or not.
    void add(std::string const& owner, std::size_t amount = 1);
    /// Of what was added.
    void remove(std::string const& owner, std::size_t amount = 1);

    [[nodiscard]] std::size_t all() const { return all_; }
    [[nodiscard]] std::size_t of(std::string const& owner) const;
    [[nodiscard]] std::map<std::string, std::size_t> const& by_owner() const { return by_owner_; }

private:
    std::string const what_;
    std::string const advice_;
    std::size_t const most_;
    std::size_t all_ = 0;
    std::map<std::string, std::size_t> by_owner_;  ///< without those who use nothing
};

}  // namespace mgi::control
