/// \file
/// Whether a request meant this server. A page of another site can have its own name resolve to our
/// address and then read what we serve as if it were its own (DNS rebinding); its requests still bear
/// that name in `Host`.
#pragma once

#include <string>
#include <string_view>

namespace mgi::control {

/// The names that this server goes by. Numbers need no list: no name was resolved for them, so a page
/// that asks for a number came from that number. Nor does a port matter, which an ssh tunnel changes.
/// Thread-safe.
class OwnNames {
public:
    /// `listened`: the host that the server listens on, a name or a number.
    explicit OwnNames(std::string_view listened);

    /// Whether `host`, the field's value in small letters, is an address, "localhost", the name listened
    /// on or this machine's.
    [[nodiscard]] bool has(std::string_view host) const;

private:
    std::string listened_;
    std::string machine_;
};

}  // namespace mgi::control
