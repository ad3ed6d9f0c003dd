/// \file
/// A process of an exchange over processes, as `mgi perf exchange --processes` drives it: MGI's own,
/// the limit's and the peers' have the same rows and the same commands, so that they can be run in
/// turn while the others wait without a core.
///
/// It connects to the driver's socket and speaks lines. From the driver: `prepare VARIANT`, what is
/// not timed, and `run VARIANT`, one exchange. To it: `hello RANK`, `ready ROWS KEY_SUM PARITY` (what
/// it will send), `prepared`, `ran START END ROWS KEY_SUM PARITY` (nanoseconds of the monotonic
/// clock; what it received), `gather HEX`, answered by `gathered HEX...` of all ranks once all have
/// asked, and `error TEXT`. When the driver closes the socket, the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "perf/kernels.hpp"
#include "perf/rows.hpp"

namespace mgi::peers {

/// Who sends what to whom. Endpoints below `sources` send; the last `destinations` ones receive. Each
/// process has as many endpoints, in the order of ranks; a peer's process is one.
struct Options {
    std::string driver;  ///< path of its socket
    std::uint32_t rank = 0;
    std::uint32_t processes = 1;
    std::uint32_t endpoints = 1;  ///< of all processes
    std::uint32_t sources = 1;
    std::uint32_t destinations = 1;
    bool broadcast = false;      ///< every row to every destination, else by murmur3 of the key
    perf::ExchangeOptions rows;  ///< of all sources together, which are its endpoints

    [[nodiscard]] std::uint32_t destination(std::uint32_t d) const {
        return endpoints - destinations + d;
    }
    [[nodiscard]] bool sends() const { return rank < sources; }  ///< of a peer
    [[nodiscard]] bool receives() const { return rank >= endpoints - destinations; }
    [[nodiscard]] std::uint32_t columns() const { return rows.row_bytes / 8; }
};

/// Reads words such as "rows=1000"; `rank` and `processes` are not among them. Throws
/// Error(InvalidArgument) that names the word.
Options read_options(std::vector<std::string> const& words);

/// What a process of an exchange did.
struct Ran {
    perf::Clock::time_point start;  ///< before its first row
    perf::Clock::time_point end;    ///< its last row sent, and the last one received read
    perf::Checksum received;
};

/// The way to the driver. Throws Error(Io) when it cannot be reached or speaks out of turn.
class Driver {
public:
    explicit Driver(Options const& options);
    ~Driver();
    Driver(Driver const&) = delete;
    Driver& operator=(Driver const&) = delete;

    void say(std::string_view line);
    /// The driver's next line; false when it has closed.
    bool hear(std::string& line);
    /// What each rank has said, by rank, once all have.
    std::vector<std::string> gather(std::string_view mine);

private:
    int socket_ = -1;
    std::string heard_;
};

/// One library's way to do it.
class Member {
public:
    Member() = default;
    virtual ~Member() = default;
    Member(Member const&) = delete;
    Member& operator=(Member const&) = delete;

    virtual void prepare(std::string_view variant);
    virtual Ran run(std::string_view variant) = 0;
};

/// The rows of this process' endpoints.
using OwnRows = std::vector<std::unique_ptr<perf::Rows>>;

/// Those of a peer, which has one endpoint in each process; throws Error(InvalidArgument) else.
perf::Rows const& only(Options const& options, OwnRows const& rows);

/// A process from its start to its end: `make(options, rows, driver)` is called once the rows are
/// made. Returns its exit status; what goes wrong is said to the driver, and on standard error.
using Make = std::unique_ptr<Member> (*)(Options const&, OwnRows const&, Driver&);
int run_member(std::vector<std::string> const& words, Make make);

}  // namespace mgi::peers
