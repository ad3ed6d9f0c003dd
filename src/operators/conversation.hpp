// What the processes of an operator say to each other: facts before the first row moves, and how it
// went when the last one has. So all decide alike, and a failure in one of them comes to all.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <mgi/operators.hpp>

#include "operators/caller.hpp"
#include "operators/processes.hpp"

namespace mgi::operators {

// Why a process could not go on.
struct Failure {
    std::exception_ptr what;
    // It came when a channel had failed already, so another process may know the first cause.
    bool followed = false;
};

bool any_failed(std::vector<Channel> const& channels);

// Used by the thread that calls the operator. It goes in steps; every process makes the same ones.
class Conversation {
public:
    // Arguments by name, which must be the same everywhere.
    using Call = std::vector<std::pair<std::string, std::string>>;

    // `what` names the operator in messages and in channel names. Without arguments this process only gives up.
    Conversation(Processes& processes, std::string what, Call const& call,
                 OperatorOptions const& options);

    [[nodiscard]] bool alone() const { return processes_.count() == 1; }
    [[nodiscard]] Processes& processes() const { return processes_; }
    [[nodiscard]] std::string const& what() const { return what_; }

    // What all say at this step, by process: in several steps where it is long. Throws an Error that names the process where one has given
    // up, has ended, or was called with other arguments; Error(Timeout) when one has said nothing for as long
    // as the options' patience, Error(Interrupted) when the caller cancels.
    std::vector<std::string> gather(std::string const& facts);

    // All have come to the end of an attempt, this process with a failure or without. Throws where one has failed: this process' own failure, or an Error that names whose it
    // is. Throws NarrowOverflow where that is all that went wrong; then the conversation goes on. While
    // `channels` move, others are not waited for in vain.
    void end(Failure const& failure, std::vector<Channel> const& channels);

    // This process gives up at this step, which the others learn when they come to it, for as long as the
    // options' patience. Waits for none of them. Nothing to be said where they know.
    void give_up(std::exception_ptr const& failure) noexcept;

private:
    // What a process says at a step.
    struct Said;
    enum class Outcome : u8;
    using Clock = std::chrono::steady_clock;

    static Said describe(Failure const& failure);
    std::string encode(Said const& said) const;
    static std::vector<Said> decode(std::vector<std::string> const& words);
    std::vector<Said> say(Said const& mine, std::chrono::milliseconds patience,
                          std::vector<Channel> const& channels);
    void compare_calls(std::vector<Said> const& all) const;
    void judge(std::vector<Said> const& all, Outcome mine, std::exception_ptr const& own);
    [[noreturn]] void blame(std::size_t process, Said const& said) const;
    [[nodiscard]] std::chrono::milliseconds farewell() const;

    Processes& processes_;
    std::string what_;
    std::string call_;
    Caller const caller_;
    std::chrono::milliseconds patience_;
    u64 number_ = 0;
    u64 step_ = 0;
    bool said_ = false;  // something at this step
    bool over_ = false;  // all know that it has failed, or that nobody can be reached
};

// Where an operator's tables lie, which no process may see otherwise.
enum class TableMemory : u8 {
    Host,
    Gpu,
    HostForGpus,  // the host, at endpoints on GPUs
};
// Arguments that all operators have, and `more`.
Conversation::Call call_of(std::vector<Endpoint> const& endpoints, OperatorOptions const& options,
                           TableMemory memory, Conversation::Call const& more);
// A group-by's own arguments, a join's, and a sort's.
Conversation::Call arguments_of(std::vector<std::string> const& keys,
                                std::vector<Aggregate> const& aggregates);
Conversation::Call arguments_of(JoinSpec const& spec);
Conversation::Call arguments_of(std::vector<SortKey> const& keys);
// "a, b"
std::string names_text(std::vector<std::string> const& names);

// Runs an operator's whole work: what it throws is told to the other processes before it goes on.
template <class Work>
auto converse(Conversation& talk, Work&& work) {
    try {
        return work();
    } catch (...) {
        talk.give_up(std::current_exception());
        throw;
    }
}

}  // namespace mgi::operators
