/// \file
/// A job of processes that are threads, and what became of each.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "operators/reference.hpp"
#include "operators/threads_as_processes.hpp"

namespace mgi::test {

/// What a process came to.
struct Came {
    std::vector<Table> tables;
    std::exception_ptr failure;
};

/// Endpoints of one runtime, shared out among processes that are threads.
class Job {
public:
    /// `owners` has the process of each endpoint, `servers` the server of each process; one, if empty.
    Job(std::size_t processes, std::vector<std::size_t> owners,
        std::vector<std::uint32_t> servers = {})
        : cluster_(owners.size()),
          owners_(std::move(owners)),
          servers_(std::move(servers)),
          place_(cluster_.runtime, processes) {}

    [[nodiscard]] Runtime& runtime() { return cluster_.runtime; }
    [[nodiscard]] std::vector<Endpoint> const& endpoints() const { return cluster_.endpoints; }
    [[nodiscard]] std::size_t processes() const { return place_.count(); }
    [[nodiscard]] MeetingPlace& place() { return place_; }

    /// Parts as a process gives them: its own, and empty ones.
    [[nodiscard]] std::vector<Table> own(std::vector<Table> parts, std::size_t process) const;

    using Body = std::function<std::vector<Table>(ThreadAsProcess& processes, std::size_t me)>;
    /// Runs `body` in every process and waits for all.
    std::vector<Came> run(Body const& body);

    /// The result at each endpoint, from the process that has it.
    std::vector<Table> result(std::vector<Came>& came);

private:
    Cluster cluster_;
    std::vector<std::size_t> owners_;
    std::vector<std::uint32_t> servers_;
    MeetingPlace place_;
};

/// The process of each endpoint, in any order: one of each of them and `more` of whichever.
std::vector<std::size_t> random_owners(Random& random, std::size_t processes, std::size_t more);

/// Every failure, as text; each process must have one, of this code.
std::vector<std::string> texts_of(std::vector<Came> const& came, ErrorCode code);
void expect_words(std::string const& text, std::vector<std::string> const& words);

}  // namespace mgi::test
