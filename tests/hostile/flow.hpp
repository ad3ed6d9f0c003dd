/// \file
/// One run: the paper's Figure 3 loop in every group of a shape's endpoints, on fibers, with every
/// promise checked as it goes.
#pragma once

#include <memory>
#include <vector>

#include <mgi/device.hpp>

#include "hostile/ledger.hpp"
#include "hostile/words.hpp"
#include "mover/channel_moves.hpp"
#include "support/groups.hpp"

namespace mgi::hostile {

using TinyChannel = test::BasicTinyChannel<HostileAtomics>;
using State = TinyChannel::State;

/// "lane 0.1 cursor", for traces.
std::string name_word(State& state, void const* word);

class Flow : private Observer {
public:
    explicit Flow(Shape const& shape);
    ~Flow() override;
    Flow(Flow const&) = delete;
    Flow& operator=(Flow const&) = delete;

    /// Throws Broken or Hang. Returns the steps that it took.
    std::uint64_t run();

private:
    friend class Kernel;

    /// What the threads of a group share.
    struct GroupRun {
        GroupRun(std::uint32_t threads, std::uint32_t scratch_bytes)
            : barrier(threads, &Scheduler::pause), scratch(scratch_bytes) {}
        device::HostBarrier barrier;
        test::Scratch scratch;
        std::atomic<std::uint32_t> rows_sent{0};  ///< by row: threads that have sent all of theirs
    };
    void add_stages();
    void add_moves();
    void spawn_group(std::uint32_t source, std::uint32_t destination, std::uint32_t block);
    void spawn_sorters();
    void spawn_movers();
    void fail();
    [[nodiscard]] std::uint64_t progress();
    GroupRun& new_group(std::uint32_t threads);

    // The end of a run.
    void check_counters();
    void check_slots(State& state);
    void check_slot(State& state, device::Slot<HostileAtomics>& slot, std::uint64_t next,
                    std::uint32_t ring, bool clean);

    void storing(void const* word, std::uint64_t value) override;
    void queued(std::uint32_t destination, std::uint32_t source, std::uint32_t slot,
                std::uint32_t rows);

    Shape const& shape_;
    Ledger ledger_;
    Scheduler scheduler_;
    TinyChannel channel_;
    std::vector<std::unique_ptr<TinyChannel>> stages_;
    std::vector<State*> stage_states_;
    std::vector<std::unique_ptr<mover::BasicChannelMoves<HostileAtomics>>> moves_;
    std::vector<std::unique_ptr<GroupRun>> groups_;
    std::uint32_t next_number_ = 1;
    bool failed_ = false;
};

}  // namespace mgi::hostile
