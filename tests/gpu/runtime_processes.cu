// Processes of one machine. With endpoints on one GPU each copies into the memory of the others, or sends by links; they
// take turns on the GPU, so a wait for each other is some milliseconds: rows are few. With a GPU each, which are peers,
// they read in place what the others have for them. One is killed, or stopped, in the middle.
#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "gpu/runtime_rig.hpp"
#include "support/meeting.hpp"

namespace mgi::test::gpu {

namespace {

using std::chrono::milliseconds;

struct Told {
    char const* name;
    Routing routing;
    u64 rows;  ///< of each process
    u32 segment_rows = 0;
};

std::vector<Told> flows_of_processes() {
    return {{"partition", Routing::partition("key"), 100'000},
            {"modulo", Routing::partition("key", Hash::Modulo), 100'000},
            {"small segments", Routing::partition("key"), 10'000, 512},
            {"broadcast", Routing::broadcast(), 30'000}};
}

/// One process' endpoint on the GPU, which sends and receives.
class Party {
public:
    /// `turned`: each process has numbers of its own for the GPUs, and calls its first one 0.
    Party(u32 rank, u32 size, bool peers, bool turned)
        : rank_(rank),
          peers_(peers),
          device_("cuda:" + std::to_string(peers && !turned ? rank : 0)),
          runtime_(join_meeting(rank, size, options_of_tests())),
          mine_(runtime_.create_endpoint(named(device_))),
          all_(runtime_.gather_endpoints({mine_})) {
        expect(all_.size() == size, "not all processes have come");
    }

    /// Among the processes of these ranks, which is one of them.
    void make(Told const& told, std::vector<u32> const& ranks) {
        ChannelSpec spec;
        for (u32 const rank : ranks) {
            if (rank == rank_) place_ = u32(spec.sources.size());
            spec.sources.push_back(all_[rank]);
        }
        spec.destinations = spec.sources;
        spec.schema = Schema{{"key", int64()}, {"id", int64()}};
        spec.routing = told.routing;
        spec.options.name = told.name;
        spec.options.segment_rows = told.segment_rows;
        if (told.segment_rows != 0) {
            spec.options.slots = 4;
            spec.options.credits = 2;
            spec.options.tile_rows = spec.options.chunk_rows = told.segment_rows / 2;
        }
        spec.options.gone_limit = milliseconds(4000);
        spec.options.stall_limit = settings.limit() / 2;
        channel_ = runtime_.create_channel(spec);
        pool_bytes_ = channel_->plan().pool_bytes;
        if (!settings.cpu) {
            char const* const ipc = std::getenv("MGI_GPU_IPC");
            bool const in_place = peers_ && told.routing.kind == device::RoutingKind::Partition;
            bool const copies = !in_place && (ipc == nullptr || std::string(ipc) != "off");
            expect(
                copied_into(*channel_) == (copies ? ranks.size() - 1 : 0),
                "copies into " + std::to_string(copied_into(*channel_)) + " other processes' GPUs");
            expect((channel_->plan().transfer == Transfer::ByReference) == in_place,
                   std::string("goes ") + to_string(channel_->plan().transfer));
        }
        set_task(told, u32(ranks.size()));
    }

    /// Sends, receives; throws the channel's error.
    void run() {
        start();
        finish();
    }
    void start() {
        launch_ = launch(runtime_, mine_, shape_on(device_), channel_->on(mine_), task_);
    }
    void finish() {
        try {
            launch_->wait(settings.limit());
        } catch (Error const&) {
            channel_->fail(ErrorCode::Timeout, "given up");
            throw;
        }
        channel_->check();
        auto const tally = tally_->values()[0];
        expect(tally.failure == 0, "the kernel got error " + std::to_string(tally.failure));
        expect(tally.wrong == 0, "wrong rows: " + std::to_string(tally.wrong));
        expect(tally.astray == 0, "rows astray: " + std::to_string(tally.astray));
        auto const seen = seen_->values();
        for (u64 id = 0; id < seen.size(); ++id) {
            u32 const wanted = task_.is_mine(id) ? 1 : 0;
            expect(seen[id] == wanted,
                   "row " + std::to_string(id) + " came " + std::to_string(seen[id]) + " times");
        }
    }
    [[nodiscard]] u64 pool_bytes() const { return pool_bytes_; }
    [[nodiscard]] std::string const& device() const { return device_; }
    /// Waits for all of them.
    void meet() { (void)runtime_.gather_endpoints({mine_}); }
    void leave() {
        runtime_.delete_channel(*channel_);
        channel_.reset();
    }

private:
    void set_task(Told const& told, u32 members) {
        task_ = {};
        task_.routing = told.routing.kind;
        task_.modulo = told.routing.hash == Hash::Modulo;
        task_.rows = told.rows;
        task_.source = task_.destination = place_;
        task_.sources = task_.destinations = members;
        std::vector<Row> rows;
        for (u64 i = 0; i < told.rows; ++i) {
            u64 const id = place_ * told.rows + i;
            rows.push_back({key_of(id), i64(id)});
        }
        data_ = std::make_unique<Room<Row>>(device_, rows);
        seen_ = std::make_unique<Room<u32>>(device_, told.rows * members);
        tally_ = std::make_unique<Room<Task::Tally>>(device_, 1);
        task_.data = data_->get();
        task_.seen = seen_->get();
        task_.tally = tally_->get();
    }

    u32 rank_;
    bool peers_;
    std::string device_;
    Runtime runtime_;
    Endpoint mine_;
    std::vector<Endpoint> all_;
    std::optional<Channel> channel_;
    std::optional<Launch> launch_;
    u64 pool_bytes_ = 0;
    u32 place_ = 0;  ///< among those of the channel
    Task task_;
    std::unique_ptr<Room<Row>> data_;
    std::unique_ptr<Room<u32>> seen_;
    std::unique_ptr<Room<Task::Tally>> tally_;
};

u64 free_bytes(std::string const& device) {
    std::size_t free = 0;
    std::size_t total = 0;
    if (settings.cpu) return free;
    GpuOfThread const there(std::stoi(device.substr(std::strlen("cuda:"))));
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
}

std::vector<u32> ranks_below(u32 size) {
    std::vector<u32> ranks(size);
    for (u32 i = 0; i < size; ++i) ranks[i] = i;
    return ranks;
}

/// What all processes have of the GPU comes back, whoever has it last.
void come_and_go(Party& party, u32 size) {
    Told const told{"comes and goes", Routing::partition("key"), 10'000};
    constexpr int kRounds = 8;
    std::vector<u64> free;
    for (int i = 0; i < kRounds; ++i) {
        party.make(told, ranks_below(size));
        party.run();
        party.leave();
        party.meet();
        free.push_back(free_bytes(party.device()));
        party.meet();
    }
    std::string all;
    for (u64 const bytes : free) all.append(1, ' ').append(std::to_string(bytes >> 20));
    // Plain memory stays until the next channel if another process was the last to let go.
    u64 const kept = (8u << 20) + size * party.pool_bytes();
    auto const middle = free.begin() + kRounds / 2;
    expect(*std::max_element(middle, free.end()) + kept >= *std::max_element(free.begin(), middle),
           "the GPU's free memory becomes less, in MiB:" + all);
}

void exchange_all(u32 rank, u32 size, bool peers, bool turned) {
    Party party(rank, size, peers, turned);
    for (Told const& told : flows_of_processes()) {
        try {
            party.make(told, ranks_below(size));
            party.run();
            party.leave();
        } catch (std::exception const& error) {
            throw std::runtime_error(std::string(told.name) + ": " + error.what());
        }
    }
    come_and_go(party, size);
}

constexpr u32 kLost = 1;
constexpr std::chrono::seconds kStopped{25};  // links are given up before

/// What has gone wrong with the channel of a party once its kernels are over; empty: nothing.
std::string bereft(Party& party) {
    try {
        party.finish();
    } catch (Error const& error) {
        expect(error.code() == ErrorCode::GroupFailed || error.code() == ErrorCode::Stalled,
               error.what());
        return error.what();
    }
    return {};
}

/// The first process comes late: so the second is killed, or stopped, while it waits for it, with rows under way. Nobody
/// has room for all that the others send.
void lose_one(u32 rank, u32 size, bool peers, bool stopped) {
    Party party(rank, size, peers, false);
    Told const told{"bereaved", Routing::partition("key"), 100'000, 512};
    party.make(told, ranks_below(size));
    if (rank == 0) std::this_thread::sleep_for(milliseconds(1500));
    party.start();
    if (rank == kLost) {
        std::this_thread::sleep_for(milliseconds(500));
        if (!stopped) raise(SIGKILL);
        stop_for(kStopped);
        (void)bereft(party);
        return;
    }
    std::string const why = bereft(party);
    // Kernels of a process that is stopped run on.
    expect((stopped && why.empty()) ||
               (why.find("bereaved") != why.npos && why.find("rank 1") != why.npos),
           "no error that names the lost process: " + why);
    party.leave();
    // The others go on, and so does the GPU.
    std::vector<u32> survivors = ranks_below(size);
    survivors.erase(survivors.begin() + kLost);
    party.make({"survivors", Routing::partition("key"), 10'000}, survivors);
    party.run();
    party.leave();
}

constexpr char const* kTurned = "turned";

/// All GPUs, that of this rank first, as Dask has it.
std::string gpus_from(u32 rank) {
    auto const gpus = u32(gpus_of_tests());
    std::string list;
    for (u32 i = 0; i < gpus; ++i) {
        list += (i == 0 ? "" : ",") + std::to_string((rank + i) % gpus);
    }
    return list;
}

void hold_meeting(std::string const& what, std::string const& ipc, u32 size) {
    Meeting meeting(size);
    for (u32 rank = 0; rank < size; ++rank) {
        std::vector<std::string> command{settings.program, "--member", what, std::to_string(rank),
                                         std::to_string(size)};
        if (settings.cpu) command.insert(command.begin() + 1, "--cpu");
        std::vector<std::pair<std::string, std::string>> set{{"MGI_GPU_IPC", ipc},
                                                             {"MGI_LOG", "off"}};
        if (what.ends_with(kTurned)) set.emplace_back("CUDA_VISIBLE_DEVICES", gpus_from(rank));
        meeting.start(command, set);
    }
    std::string problems;
    for (u32 rank = 0; rank < size; ++rank) {
        std::string const ended = meeting.wait(rank, 2 * settings.limit());
        bool const was_killed = what.starts_with("lose") && rank == kLost;
        if (was_killed ? ended == "ended by Killed" : ended.empty()) continue;
        problems += "rank " + std::to_string(rank) + ": " + ended + "; ";
    }
    expect(problems.empty(), problems);
}

}  // namespace

int run_member(std::string const& what, u32 rank, u32 size) {
    try {
        bool const peers = what.find("peers") != what.npos;
        if (what.starts_with("exchange")) {
            exchange_all(rank, size, peers, what.ends_with(kTurned));
        } else {
            lose_one(rank, size, peers, what.starts_with("stop"));
        }
        return 0;
    } catch (std::exception const& error) {
        std::printf("rank %u: %s\n", rank, error.what());
        return 1;
    }
}

void add_processes(std::vector<Test>& tests) {
    struct Way {
        char const* name;
        char const* ipc;
    };
    for (Way const way :
         {Way{"mapped memory", "on"}, Way{"plain memory", "plain"}, Way{"links", "off"}}) {
        tests.push_back({std::string("two processes of a GPU, by ") + way.name,
                         [ipc = way.ipc] { hold_meeting("exchange", ipc, 2); }, false, true});
    }
    // On a GPU its links are given up after 10 to 14 s.
    tests.push_back({"three processes of a GPU, one is killed",
                     [] { hold_meeting("lose", "on", 3); }, false, true});
    auto const gpus = settings.cpu ? 0 : u32(gpus_of_tests());
    if (gpus >= 2) {
        tests.push_back({"processes of GPUs that are peers",
                         [gpus] { hold_meeting("exchange peers", "on", std::min(gpus, 4u)); },
                         false, false});
        tests.push_back(
            {"processes of peers that number their GPUs differently",
             [gpus] { hold_meeting("exchange peers turned", "on", std::min(gpus, 4u)); }, false,
             false});
    }
    if (gpus >= 2) {
        u32 const size = std::min(gpus, 3u);
        tests.push_back({"processes of peers, one is killed",
                         [size] { hold_meeting("lose peers", "on", size); }, false, false});
        tests.push_back({"processes of peers, one is stopped",
                         [size] { hold_meeting("stop peers", "on", size); }, false, false});
    }
}

}  // namespace mgi::test::gpu
