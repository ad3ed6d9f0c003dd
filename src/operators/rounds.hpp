// Operators of GPUs over tables in the host's memory, in rounds: some of the rows are copied to the GPUs, an operator runs on
// them there, and its results are copied back, while the next round's rows come. Which rows a round has all processes
// of the operator decide together.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/gpu_copies.hpp>
#include <mgi/operators.hpp>

#include "operators/budget.hpp"
#include "operators/conversation.hpp"
#include "operators/input.hpp"
#include "operators/row_sets.hpp"

namespace mgi::operators {

// The GPUs of this process' endpoints, or, in tests, the host in their place.
class RoundPlaces {
public:
    RoundPlaces() = default;
    RoundPlaces(RoundPlaces const&) = delete;
    RoundPlaces& operator=(RoundPlaces const&) = delete;
    virtual ~RoundPlaces() = default;

    // Bytes that all of an operator may take at an endpoint, its rows among them; an estimate.
    [[nodiscard]] virtual u64 room(std::size_t endpoint) const = 0;
    // N of "cuda:N"; below 0: the host.
    [[nodiscard]] virtual int gpu(std::size_t endpoint) const = 0;
    // Memory that can be used at once; `what` is for the error. Throws Error(OutOfMemory).
    virtual std::shared_ptr<void> allocate(std::size_t endpoint, u64 bytes,
                                           std::string const& what) = 0;
    // Until what the caller has put into streams before the call is done.
    virtual void wait_for_callers_work() {}
    // A copy of a table; called beside kernels, from other threads.
    [[nodiscard]] virtual RecordBatch to_host(GpuTable const& table) const = 0;
};

// Of a batch, as results and rounds count it: texts have offsets, too.
u64 bytes_with_offsets(RecordBatch const& batch);
// What the host's memory may have beside the inputs.
Budget host_budget(std::string const& what, u64 limit);
// A copy of what a call reports, added to what others have.
void add_report(OperatorReport& all, OperatorReport const& one);

class Rounds {
public:
    // An operator over tables on GPUs, of each side one for each endpoint. Throws in all processes or in none, with
    // OutOfMemory in all of them where one has no room.
    using Work = std::function<std::vector<GpuTable>(
        std::vector<std::vector<GpuTable>> const& sides, OperatorReport* report)>;
    // A side's parts, and the columns that it is cut by.
    struct Side {
        Input const* input = nullptr;
        std::vector<ComparedKey> keys = {};
    };

    // `talk` is this call's; `report` gets phases and the number of rounds, and what each round reports.
    Rounds(Conversation& talk, std::vector<Endpoint> const& endpoints, RoundPlaces& places,
           OperatorOptions const& options, u64 host_memory, OperatorReport& report);

    // How many rounds rows may need, by their bytes and the room that there is, in all processes alike. `beside`: bytes that the
    // operator takes for each row, and twice its result, beside the rows that come.
    std::size_t needed(std::vector<Side> const& sides, u64 beside = 0);

    // One round of all rows; none where there is no room for it.
    std::optional<std::vector<Table>> whole(std::vector<Side> const& sides, Work const& work);
    // Rounds of as many rows each, halved where there is no room.
    std::vector<Table> by_rows(Side const& side, std::size_t rounds, Work const& work);
    // Rounds that have all rows of some keys; halved where there is no room, until they have one key. `nulls`: what null
    // keys are.
    std::vector<Table> by_keys(std::vector<Side> const& sides, NullKeys nulls, Work const& work);
    // So many rounds, in the order of their numbers, of which `find` says each row's; `work` is told its round's. None where one has no
    // room, and `why`.
    using NumberedWork =
        std::function<std::vector<GpuTable>(std::vector<std::vector<GpuTable>> const& sides,
                                            std::size_t round, OperatorReport* report)>;
    std::optional<std::vector<Table>> by_numbers(Side const& side, std::size_t rounds,
                                                 FindSets const& find, NumberedWork const& work,
                                                 std::string& why);

private:
    // By side and endpoint.
    using Round = std::vector<std::vector<RowSet>>;
    // Puts parts of a round that has no room in front of the others; false: there are none. `why`: for the error.
    using Split =
        std::function<bool(Round const& round, std::string const& why, std::deque<Round>& todo)>;
    class Loaded;

    [[nodiscard]] Round all_rows(std::vector<Side> const& sides) const;
    // What the sets that a set was cut into keep beside its rows, until the last one dies.
    [[nodiscard]] std::shared_ptr<Charge> held_by_cut(u64 rows, std::vector<RowSet> const& sets);
    std::optional<std::vector<Table>> run(std::vector<Side> const& sides, std::deque<Round> todo,
                                          Work const& work, Split const& split);
    [[nodiscard]] std::vector<Round> cut(Round const& round, std::vector<KeyHashes> const& hashes,
                                         u32 bit, u32 bits);
    std::string first_of_all(std::string const& words);
    u64 most_of_all(u64 number);
    void end_phase(std::string const& name);

    Conversation& talk_;
    std::vector<Endpoint> const& endpoints_;
    std::vector<std::size_t> own_;
    RoundPlaces& places_;
    Caller const caller_;
    Budget memory_;  // of the host
    OperatorReport& report_;
    std::chrono::steady_clock::time_point phase_start_;
};

}  // namespace mgi::operators
