#include "control/agent/owner.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

#include <mgi/error.hpp>

#include "control/agent/holdings.hpp"
#include "core/log.hpp"
#include "core/private_files.hpp"
#include "transport/wire/crypto.hpp"

namespace mgi::control {

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kLeastSecret = 32;

std::span<std::uint8_t const> bytes_of(std::string_view text) {
    return {reinterpret_cast<std::uint8_t const*>(text.data()), text.size()};
}

std::string hmac(std::string_view key, std::string_view message) {
    auto const digest = transport::wire::hmac_sha256(bytes_of(key), message);
    return {digest.begin(), digest.end()};
}

/// Each field with its size, so that no two lists have the same bytes.
std::string packed(std::initializer_list<std::string_view> fields) {
    std::string bytes;
    for (std::string_view const field : fields) {
        bytes += std::to_string(field.size());
        bytes += ':';
        bytes += field;
    }
    return bytes;
}

std::string random_key() {
    std::array<std::uint8_t, kKeyBytes> key{};
    transport::wire::fill_random(key);
    return {key.begin(), key.end()};
}

}  // namespace

std::string owner_of(std::uint32_t uid, std::string_view job_secret) {
    if (job_secret.empty()) return "user " + std::to_string(uid);
    if (job_secret.size() < kLeastSecret) {
        throw Error(ErrorCode::InvalidArgument,
                    "a job's secret of " + std::to_string(job_secret.size()) +
                        " characters: at least " + std::to_string(kLeastSecret) +
                        " random ones are needed (MGI_JOB_SECRET)");
    }
    constexpr char const* kDigits = "0123456789abcdef";
    std::string owner = "job ";
    for (char const byte : hmac(job_secret, "MGI: the name of a job").substr(0, 16)) {
        owner += kDigits[static_cast<unsigned char>(byte) >> 4];
        owner += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    return owner;
}

Tickets::Tickets(std::string key) : key_(key.empty() ? random_key() : std::move(key)) {}

std::string Tickets::of_endpoint(std::string_view owner, std::uint32_t id,
                                 std::uint32_t vertex) const {
    return hmac(key_, packed({"endpoint", owner, std::to_string(id), std::to_string(vertex)}));
}

std::string Tickets::of_plan(std::string_view owner, ClusterPlan const& plan) const {
    return hmac(
        key_, packed({"plan", owner, std::to_string(plan.channel), std::to_string(plan.generation),
                      plan.request, proto_of(plan.spec).SerializeAsString()}));
}

std::string Tickets::of_creator(std::string_view owner, std::uint32_t channel) const {
    return hmac(key_, packed({"creator", owner, std::to_string(channel)}));
}

bool is_same_ticket(std::string_view one, std::string_view other) {
    return transport::wire::same(bytes_of(one), bytes_of(other));
}

std::string ticket_key(std::string const& file) {
    auto const refuse = [&](std::string const& why) {
        return Error(ErrorCode::Refused, file +
                                             ", the key by which applications prove what they "
                                             "hold: " +
                                             why);
    };
    Fd const fd(open_own_file(file, O_RDWR | O_CREAT | O_CLOEXEC));
    if (!fd) throw refuse(std::strerror(errno));
    struct stat found{};
    bool const secret = fstat(fd.get(), &found) == 0 && (found.st_mode & 0077) == 0;
    std::string key(kKeyBytes, '\0');
    if (secret && read(fd.get(), key.data(), key.size()) == ssize_t(key.size())) return key;
    // What others may have read, or is half written, proves nothing.
    if (found.st_size > 0) {
        log::warn(
            "{} is made anew: {}; what applications hold now is lost with the agent's next "
            "restart",
            file, secret ? "it has no key in it" : "others may have read it");
    }
    key = random_key();
    bool const written = fchmod(fd.get(), S_IRUSR | S_IWUSR) == 0 && ftruncate(fd.get(), 0) == 0 &&
                         pwrite(fd.get(), key.data(), key.size(), 0) == ssize_t(key.size()) &&
                         fsync(fd.get()) == 0;
    if (!written) throw refuse(std::strerror(errno));
    return key;
}

}  // namespace mgi::control
