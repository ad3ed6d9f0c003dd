#include "transport/wire/own_addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <mgi/error.hpp>

namespace mgi::transport::wire {

namespace {

// IPv4 first. An IPv6 address that is good on its own cable only is left out.
std::vector<OwnAddress> list_own() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) {
        throw Error(ErrorCode::Internal, with_error("cannot list this machine's NICs", errno));
    }
    std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const list(first, &freeifaddrs);
    std::vector<OwnAddress> own;
    for (ifaddrs const* at = first; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
        int const family = at->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        socklen_t const bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        sockaddr_storage storage{};
        std::memcpy(&storage, at->ifa_addr, bytes);
        sockaddr_in6 six{};
        if (family == AF_INET6) std::memcpy(&six, at->ifa_addr, bytes);
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) continue;
        own.push_back({at->ifa_name, Address(storage, bytes).without_port()});
    }
    std::stable_sort(own.begin(), own.end(), [](OwnAddress const& a, OwnAddress const& b) {
        return a.address.family() == AF_INET && b.address.family() != AF_INET;
    });
    return own;
}

// "[::1]:0" and "10.0.0.1:0" without their ports.
std::string host_of(Address const& address) {
    std::string const text = address.text();
    return text.substr(0, text.rfind(':'));
}

std::optional<Address> as_address(std::string const& text) {
    bool const six = text.find(':') != std::string::npos && text.front() != '[';
    try {
        return Address(six ? "[" + text + "]:0" : text + ":0");
    } catch (Error const&) {
        return std::nullopt;  // a name
    }
}

}  // namespace

std::vector<OwnAddress> own_addresses(std::vector<std::string> const& wanted) {
    std::vector<OwnAddress> const own = list_own();
    std::vector<OwnAddress> found;
    for (std::string const& text : wanted) {
        auto const address = text.empty() ? std::nullopt : as_address(text);
        auto const at = std::find_if(own.begin(), own.end(), [&](OwnAddress const& one) {
            return address ? host_of(one.address) == host_of(*address) : one.nic == text;
        });
        if (at != own.end()) {
            found.push_back(*at);
            continue;
        }
        std::string known;
        for (OwnAddress const& one : own) {
            known += (known.empty() ? "" : ", ") + one.nic + " " + host_of(one.address);
        }
        throw Error(ErrorCode::NotFound, "'" + text +
                                             "' is no address and no interface of this machine "
                                             "that is up; it has " +
                                             (known.empty() ? "none" : known));
    }
    return found;
}

std::string interface_of(Address const& address) {
    std::string const host = host_of(address);
    for (OwnAddress const& one : list_own()) {
        if (host_of(one.address) == host) return one.nic;
    }
    throw Error(ErrorCode::NotFound, "no interface of this machine has the address " + host);
}

}  // namespace mgi::transport::wire
