// The processes that run an operator together, as one of them sees them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mgi/gpu_windows.hpp>
#include <mgi/operators.hpp>

#include "operators/text.hpp"

namespace mgi::operators {

// Processes are numbered alike in all of them. Used by the thread that calls the operator.
class Processes {
public:
    Processes() = default;
    Processes(Processes const&) = delete;
    Processes& operator=(Processes const&) = delete;
    virtual ~Processes() = default;

    [[nodiscard]] virtual std::size_t count() const = 0;
    [[nodiscard]] virtual std::size_t me() const = 0;
    // For messages: "rank 2".
    [[nodiscard]] virtual std::string name(std::size_t process) const = 0;
    [[nodiscard]] virtual bool mine(Endpoint endpoint) const = 0;
    // Where the operator's endpoints are: servers, numbered from 0 as they come.
    [[nodiscard]] virtual std::vector<u32> servers() const = 0;
    // The number of an operator among those that these processes run together, the same in all.
    virtual u64 next_operator() = 0;

    // What every process has said under this key, by process; the same to all. May be repeated with
    // the same words, which are not empty. Throws Error(Timeout) that names those which have not said theirs,
    // Error(GroupFailed) that names one which has ended, and Error(Interrupted) once `stop`, which is asked
    // every now and then, is true. One that has `failed` waits for nobody: the others hear its words, as they
    // come within the timeout, and mostly nothing else: what the rest says is empty then.
    virtual std::vector<std::string> gather(std::string const& key, std::string const& words,
                                            std::chrono::milliseconds timeout,
                                            std::function<bool()> const& stop, bool failed) = 0;

    // Called by all that have endpoints in it, with the same specification, and in the same order where
    // there are several; throws in all of them or in none.
    virtual Channel create_channel(ChannelSpec const& spec) = 0;
    // This process uses it no more.
    virtual void delete_channel(Channel const& channel) = 0;

    // Windows at these processes' GPUs; null where there is nobody to share them with.
    virtual std::shared_ptr<GpuWindows> windows() = 0;
};

// Those that have the endpoints. Throws Error(InvalidArgument) where this process has none of them.
std::unique_ptr<Processes> processes_of(Runtime& runtime, std::vector<Endpoint> const& endpoints);

// The operators of <mgi/operators.hpp>, by processes that talk to each other.
std::vector<Table> exchange_among(Processes& processes, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  std::vector<Table> const& parts,
                                  std::vector<std::string> const& keys,
                                  OperatorOptions const& options, OperatorReport* report);
std::vector<Table> group_by_among(Processes& processes, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  std::vector<Table> const& parts,
                                  std::vector<std::string> const& keys,
                                  std::vector<Aggregate> const& aggregates,
                                  OperatorOptions const& options, OperatorReport* report);
std::vector<Table> join_among(Processes& processes, Runtime& runtime,
                              std::vector<Endpoint> const& endpoints,
                              std::vector<Table> const& left, std::vector<Table> const& right,
                              JoinSpec const& spec, OperatorOptions const& options,
                              OperatorReport* report);
std::vector<Table> sort_among(Processes& processes, Runtime& runtime,
                              std::vector<Endpoint> const& endpoints,
                              std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                              OperatorOptions const& options, OperatorReport* report);

}  // namespace mgi::operators
