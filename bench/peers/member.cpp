#include "peers/member.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <sstream>

#include <mgi/job.hpp>

namespace mgi::peers {
namespace {

constexpr std::size_t kMostLine = 1u << 20;

[[noreturn]] void refuse(std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, why);
}

template <class T>
void read_number(std::string_view name, std::string_view text, T& value) {
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        refuse(std::string(name) + "=" + std::string(text) + ": give a number");
    }
}

void check(Options const& options) {
    if (options.driver.empty()) refuse("driver= is missing: give the path of its socket");
    auto const at_most_all = [&](char const* name, std::uint32_t value) {
        if (value >= 1 && value <= options.endpoints) return;
        refuse(std::string(name) + "=" + std::to_string(value) + ": give 1 to " +
               std::to_string(options.endpoints) + ", the endpoints");
    };
    if (options.endpoints == 0 || options.endpoints % options.processes != 0) {
        refuse("endpoints=" + std::to_string(options.endpoints) + ": give a multiple of " +
               std::to_string(options.processes) + ", the processes");
    }
    at_most_all("sources", options.sources);
    at_most_all("destinations", options.destinations);
    if (options.rows.row_bytes == 0 || options.rows.row_bytes % 8 != 0) {
        refuse("row_bytes=" + std::to_string(options.rows.row_bytes) + ": give a multiple of 8");
    }
}

std::string to_hex(std::string_view bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (char const byte : bytes) {
        hex += kDigits[std::uint8_t(byte) >> 4];
        hex += kDigits[std::uint8_t(byte) & 15];
    }
    return hex;
}

std::string from_hex(std::string_view hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        std::uint8_t byte = 0;
        std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
        bytes += char(byte);
    }
    return bytes;
}

std::string show(perf::Checksum const& sum) {
    return std::to_string(sum.rows) + " " + std::to_string(sum.key_sum) + " " +
           std::to_string(sum.payload_parity);
}

std::string nanoseconds(perf::Clock::time_point time) {
    return std::to_string(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

}  // namespace

Options read_options(std::vector<std::string> const& words) {
    Options options;
    std::uint32_t broadcast = 0;
    std::uint32_t by_reference = 1;
    for (std::string const& word : words) {
        std::size_t const equals = word.find('=');
        if (equals == std::string::npos) refuse("'" + word + "': give NAME=VALUE");
        std::string const name = word.substr(0, equals);
        std::string const value = word.substr(equals + 1);
        if (name == "driver") {
            options.driver = value;
        } else if (name == "layout" && (value == "rows" || value == "columns")) {
            options.rows.layout = value == "rows" ? Layout::Rows : Layout::Columns;
        } else if (name == "endpoints") {
            read_number(name, value, options.endpoints);
        } else if (name == "sources") {
            read_number(name, value, options.sources);
        } else if (name == "destinations") {
            read_number(name, value, options.destinations);
        } else if (name == "broadcast") {
            read_number(name, value, broadcast);
        } else if (name == "rows") {
            read_number(name, value, options.rows.rows);
        } else if (name == "row_bytes") {
            read_number(name, value, options.rows.row_bytes);
        } else if (name == "zipf_theta") {
            read_number(name, value, options.rows.zipf_theta);
        } else if (name == "groups") {
            read_number(name, value, options.rows.groups);
        } else if (name == "threads") {
            read_number(name, value, options.rows.threads);
        } else if (name == "by_reference") {
            read_number(name, value, by_reference);
        } else {
            refuse("'" + word + "': there is no such option");
        }
    }
    options.broadcast = broadcast != 0;
    options.rows.by_reference = by_reference != 0;
    return options;
}

Driver::Driver(Options const& options) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (options.driver.size() >= sizeof(address.sun_path)) {
        refuse("driver=" + options.driver + ": the path is too long for a socket");
    }
    std::memcpy(address.sun_path, options.driver.data(), options.driver.size());
    if (connect(socket_, reinterpret_cast<sockaddr const*>(&address), sizeof(address)) != 0) {
        std::string const why = std::strerror(errno);
        close(socket_);
        throw Error(ErrorCode::NotFound, options.driver + " cannot be reached: " + why +
                                             "; mgi perf exchange starts this program");
    }
    say("hello " + std::to_string(options.rank));
}

Driver::~Driver() {
    close(socket_);
}

void Driver::say(std::string_view line) {
    std::string const bytes = std::string(line) + "\n";
    for (std::size_t sent = 0; sent < bytes.size();) {
        ssize_t const some = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return;  // it has closed, which `hear` will say
        sent += std::size_t(some);
    }
}

bool Driver::hear(std::string& line) {
    for (;;) {
        std::size_t const end = heard_.find('\n');
        if (end != std::string::npos) {
            line = heard_.substr(0, end);
            heard_.erase(0, end + 1);
            return true;
        }
        if (heard_.size() > kMostLine) {
            throw Error(ErrorCode::Refused, "the driver's line does not end");
        }
        char buffer[4096];
        ssize_t const some = recv(socket_, buffer, sizeof(buffer), 0);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return false;
        heard_.append(buffer, std::size_t(some));
    }
}

std::vector<std::string> Driver::gather(std::string_view mine) {
    say("gather " + to_hex(mine));
    std::string line;
    if (!hear(line)) throw Error(ErrorCode::Interrupted, "the driver has ended");
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "gathered") throw Error(ErrorCode::Refused, "'" + line + "' instead of gathered");
    std::vector<std::string> all;
    while (words >> word) all.push_back(from_hex(word));
    return all;
}

void Member::prepare(std::string_view) {}

perf::Rows const& only(Options const& options, OwnRows const& rows) {
    if (options.endpoints != options.processes) {
        refuse("endpoints=" + std::to_string(options.endpoints) + ": give " +
               std::to_string(options.processes) + ", one for each process");
    }
    return *rows.front();
}

namespace {

/// Obeys the driver until it closes.
void serve(Driver& driver, Member& member) {
    std::string line;
    while (driver.hear(line)) {
        std::size_t const space = line.find(' ');
        std::string const verb = line.substr(0, space);
        std::string const variant = space == std::string::npos ? "" : line.substr(space + 1);
        if (verb == "prepare") {
            member.prepare(variant);
            driver.say("prepared");
        } else if (verb == "run") {
            Ran const ran = member.run(variant);
            driver.say("ran " + nanoseconds(ran.start) + " " + nanoseconds(ran.end) + " " +
                       show(ran.received));
        } else {
            throw Error(ErrorCode::Refused, "the driver says '" + line + "'");
        }
    }
}

}  // namespace

int run_member(std::vector<std::string> const& words, Make make) {
    std::unique_ptr<Driver> driver;
    try {
        Job const job = Job::from_environment();
        Options options = read_options(words);
        options.rank = job.rank;
        options.processes = job.size;
        options.rows.endpoints = options.sources;
        check(options);
        driver = std::make_unique<Driver>(options);
        OwnRows rows;
        perf::Checksum sent;
        std::uint32_t const mine = options.endpoints / options.processes;
        for (std::uint32_t e = 0; e < mine; ++e) {
            rows.push_back(std::make_unique<perf::Rows>(options.rows, (options.rank * mine) + e));
            sent.add(rows.back()->checksum());
        }
        std::unique_ptr<Member> const member = make(options, rows, *driver);
        driver->say("ready " + show(sent));
        serve(*driver, *member);
        return 0;
    } catch (std::exception const& error) {
        if (driver != nullptr) driver->say(std::string("error ") + error.what());
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

}  // namespace mgi::peers
