#include "control/net/peer_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "control/local/socket.hpp"
#include "core/private_files.hpp"

namespace mgi::control::net {

namespace {

constexpr timeval kPatience{1, 0};  // the kernel answers at once
constexpr char const* kUntold = "the kernel does not tell whose connection it is";

/// An end of a connection as inet_diag names it.
struct End {
    std::uint8_t family = AF_UNSPEC;
    std::uint16_t port = 0;  ///< in the network's order
    std::array<std::uint32_t, 4> address{};
};

End end_of(sockaddr_storage const& storage) {
    End end;
    if (storage.ss_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &storage, sizeof four);
        end.family = AF_INET;
        end.port = four.sin_port;
        end.address[0] = four.sin_addr.s_addr;
    } else if (storage.ss_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &storage, sizeof six);
        end.family = AF_INET6;
        end.port = six.sin6_port;
        std::memcpy(end.address.data(), &six.sin6_addr, sizeof six.sin6_addr);
        if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
            end.family = AF_INET;
            end.address = {end.address[3], 0, 0, 0};
        }
    }
    return end;
}

struct Question {
    nlmsghdr header{};
    inet_diag_req_v2 asked{};
};

Question question(End const& from, End const& to, std::uint32_t number) {
    Question made;
    made.header.nlmsg_seq = number;
    made.header.nlmsg_len = sizeof made;
    made.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    made.header.nlmsg_flags = NLM_F_REQUEST;
    made.asked.sdiag_family = from.family;
    made.asked.sdiag_protocol = IPPROTO_TCP;
    made.asked.idiag_states = ~0u;
    made.asked.id.idiag_sport = from.port;
    made.asked.id.idiag_dport = to.port;
    std::memcpy(made.asked.id.idiag_src, from.address.data(), sizeof made.asked.id.idiag_src);
    std::memcpy(made.asked.id.idiag_dst, to.address.data(), sizeof made.asked.id.idiag_dst);
    made.asked.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
    made.asked.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return made;
}

/// Both ends of a connection; false where it broke (errno).
bool ends_of(int socket, End& here, End& there) {
    sockaddr_storage own{};
    sockaddr_storage other{};
    socklen_t own_size = sizeof own;
    socklen_t other_size = sizeof other;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
        getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) {
        return false;
    }
    here = end_of(own);
    there = end_of(other);
    return true;
}

/// What the kernel has of the socket at `from` that is connected to `to`, or else listens there.
std::optional<inet_diag_msg> found_at(End const& from, End const& to, std::string& why) {
    // Kept: it is needed where there is no other descriptor left, too.
    thread_local Fd kernel;
    thread_local std::uint32_t number = 0;
    if (!kernel) {
        kernel = Fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
        setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    }
    Question const asked = question(from, to, ++number);
    alignas(nlmsghdr) std::array<char, 4096> answer{};
    nlmsghdr header{};
    ssize_t size = ::send(kernel.get(), &asked, sizeof asked, 0);
    // What came too late for an earlier question is passed over.
    while (size > 0 && header.nlmsg_seq != number) {
        size = recv(kernel.get(), answer.data(), answer.size(), 0);
        if (size >= ssize_t(sizeof header)) std::memcpy(&header, answer.data(), sizeof header);
    }
    if (size < ssize_t(sizeof header)) {
        why = with_errno(kUntold, errno);
        return std::nullopt;
    }
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        size < ssize_t(NLMSG_HDRLEN + sizeof(inet_diag_msg))) {
        nlmsgerr refusal{};
        bool const says =
            header.nlmsg_type == NLMSG_ERROR && size >= ssize_t(NLMSG_HDRLEN + sizeof refusal);
        if (says) std::memcpy(&refusal, answer.data() + NLMSG_HDRLEN, sizeof refusal);
        why = !says || refusal.error == -ENOENT ? "no process of this machine has its other end"
                                                : with_errno(kUntold, -refusal.error);
        return std::nullopt;
    }
    inet_diag_msg found{};
    std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
    return found;
}

}  // namespace

OtherEnd other_end(int socket) {
    OtherEnd end;
    End here;
    End there;
    if (!ends_of(socket, here, there)) {
        end.closed = true;
        end.why = with_errno("the connection broke", errno);
        return end;
    }
    auto found = found_at(there, here, end.why);
    bool const stands =
        found && (found->idiag_state == TCP_ESTABLISHED || found->idiag_state == TCP_SYN_RECV);
    if (stands && found->idiag_inode == 0) {
        // Not accepted yet: it will be by whoever listens there.
        End nobody;
        nobody.family = there.family;
        found = found_at(there, nobody, end.why);
    }
    if (!found) return end;
    if (found->idiag_inode == 0) {
        // The kernel shows what is nobody's any more as root's.
        end.closed = true;
        end.why = "its other end is closed";
    } else {
        end.user = found->idiag_uid;
    }
    return end;
}

std::string wrong_user(OtherEnd const& end) {
    static auto const nobody = user_without_number();
    if (!end.user) return end.why;
    if (end.user != nobody && (*end.user == 0 || *end.user == geteuid())) return "";
    return "its other end is user " + std::to_string(*end.user) +
           "'s, and without a token it is user " + std::to_string(geteuid()) + "'s alone";
}

}  // namespace mgi::control::net
