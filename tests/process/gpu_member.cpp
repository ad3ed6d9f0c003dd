// A process with an endpoint on a GPU that is made up: what gpu_process_test.cpp starts, in a meeting.
//
//     mgi_test_gpu_member WHAT RANK SIZE HOW
//
// WHAT: "exchange", or "windows" in place of channels, or "lose", and the second process is killed, or "stop", and it is
// stopped. HOW: "copies" into the others' GPUs,
// "links", or "peers", of which each has a GPU of its own and reads in place. Prints what went wrong, and ends with 1
// then.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>
#include <thread>

#include <mgi/gpu_windows.hpp>
#include <mgi/members.hpp>

#include "support/gpu_blocks.hpp"
#include "support/meeting.hpp"

namespace mgi::test {
namespace {

using device::u32;
using device::u64;

constexpr std::chrono::seconds kLimit{30};
constexpr std::chrono::seconds kStopped{25};  // links are given up before

void require(bool holds, std::string const& what) {
    if (!holds) throw std::runtime_error(what);
}

class GpuMember {
public:
    GpuMember(u32 rank, u32 size, std::string how)
        : rank_(rank),
          how_(std::move(how)),
          runtime_(join_meeting(rank, size, one_device())),
          mine_(runtime_.create_endpoint("cuda:" + std::to_string(how_ == "peers" ? rank : 0))),
          all_(runtime_.gather_endpoints({mine_})) {}

    void make(std::vector<u32> const& ranks) {
        std::vector<Endpoint> endpoints;
        for (u32 const rank : ranks) {
            if (rank == rank_) place_ = u32(endpoints.size());
            endpoints.push_back(all_[rank]);
        }
        ChannelSpec spec = exchange_among(endpoints);
        spec.options.segment_rows = spec.options.tile_rows = spec.options.chunk_rows = 64;
        spec.options.slots = spec.options.credits = 2;
        spec.options.gone_limit = std::chrono::milliseconds(3000);
        channel_ = runtime_.create_channel(spec);
        require(copied_into(channel_) == (how_ == "copies" ? ranks.size() - 1 : 0),
                "copies into " + std::to_string(copied_into(channel_)));
        require((channel_.plan().transfer == Transfer::ByReference) == (how_ == "peers"),
                std::string("goes ") + to_string(channel_.plan().transfer));
        members_ = u32(ranks.size());
        seen_.clear();
    }
    void run() {
        device::Channel const on = channel_.on(mine_);
        auto const kernel = [this, on](device::Group const& group, device::Shared& shared) {
            std::vector<KeyValue> rows;
            for (u64 i = place_ * kRows; i < (place_ + 1) * kRows; ++i) {
                rows.push_back({std::int64_t(i), std::int64_t(i)});
            }
            exchange_rows(on, group, shared, rows, [&](device::ReceivedBatch const& batch) {
                for (u32 i = 0; i < batch.rows; ++i) ++seen_[batch.column<std::int64_t>(1)[i]];
            });
        };
        launch_blocks(runtime_, mine_, 1, {on}, kernel).wait(kLimit);
        channel_.check();
        u64 mine = 0;
        for (u64 id = 0; id < kRows * members_; ++id) {
            if (device::destination_of_hash(device::murmur3_mix(id), members_) != place_) continue;
            ++mine;
            require(seen_[std::int64_t(id)] == 1, "row " + std::to_string(id) + " came " +
                                                      std::to_string(seen_[std::int64_t(id)]) +
                                                      " times");
        }
        require(seen_.size() == mine, "rows of others came");
    }
    void leave() { runtime_.delete_channel(channel_); }

private:
    static constexpr u64 kRows = 5000;
    u32 const rank_;
    std::string const how_;
    Runtime runtime_;
    Endpoint mine_;
    std::vector<Endpoint> all_;
    Channel channel_;
    u32 place_ = 0;
    u32 members_ = 0;
    std::map<std::int64_t, int> seen_;
};

void exchange(u32 rank, u32 size, std::string const& how) {
    GpuMember member(rank, size, how);
    std::vector<u32> ranks;
    for (u32 i = 0; i < size; ++i) ranks.push_back(i);
    for (int round = 0; round < 3; ++round) {
        member.make(ranks);
        member.run();
        member.leave();
    }
}

// The first one comes late, so that the second waits for it when it is killed, or stopped.
void lose(u32 rank, u32 size, std::string const& how, bool stopped) {
    GpuMember member(rank, size, how);
    std::vector<u32> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0);
    member.make(ranks);
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    // What stands for its kernel runs in this thread.
    std::jthread const killer([rank, stopped] {
        if (rank != 1) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (!stopped) raise(SIGKILL);
        stop_for(kStopped);
    });
    std::string why;
    try {
        member.run();
    } catch (Error const& error) {
        why = error.what();
    }
    require(why.find(rank == 1 ? "rank 0" : "rank 1") != why.npos,
            "no error that names the lost process: " + why);
    member.leave();
    if (rank == 1) return;
    ranks.erase(ranks.begin() + 1);
    member.make(ranks);
    member.run();
    member.leave();
}

// Windows of all processes, which the driver that is made up has in the host's memory.
class WindowMember {
public:
    WindowMember(u32 rank, u32 size, std::string const& how)
        : rank_(rank),
          gpu_(how == "peers" ? int(rank) : 0),
          runtime_(join_meeting(rank, size, one_device())),
          mine_(runtime_.create_endpoint("cuda:" + std::to_string(gpu_))),
          all_(runtime_.gather_endpoints({mine_})),
          members_(runtime_, all_) {}

    std::vector<std::string> gather(std::string const& words) {
        return members_.gather("step " + std::to_string(step_++), words, kLimit,
                               [] { return false; });
    }
    bool meet() {
        windows_ = gpu_windows(runtime_, all_);
        return windows_->meet(gather(windows_->card()), rank_);
    }
    // Each process writes its rank into a place of its own in every window. Whether any was opened for the first time.
    bool write(std::vector<std::shared_ptr<void>> const& mine, u32 value) {
        std::vector<void*> at;
        for (auto const& window : mine) at.push_back(window.get());
        auto const opened = windows_->open(gather(windows_->offer(at)));
        require(opened.failure.empty(), opened.failure);
        for (u32 p = 0; p < opened.windows.size(); ++p) {
            for (std::size_t i = 0; i < mine.size(); ++i) {
                char* const to =
                    p == rank_ ? static_cast<char*>(at[i]) : opened.windows[p].at(i).at;
                reinterpret_cast<u32*>(to)[rank_] = value + rank_;
            }
        }
        (void)gather("written");
        for (void* const window : at) {
            for (u32 p = 0; p < opened.windows.size(); ++p) {
                require(static_cast<u32*>(window)[p] == value + p,
                        "process " + std::to_string(p) + " has not written here");
            }
        }
        windows_->close(at);
        return opened.anew;
    }
    std::shared_ptr<void> make(u64 bytes) { return windows_->make(gpu_, bytes); }
    void trim() { runtime_.trim(); }
    void do_without() { windows_->do_without(); }
    // Offers a window and gives it back while others might write there.
    void give_up(std::shared_ptr<void> window) {
        std::vector<void*> const at{window.get()};
        (void)windows_->open(gather(windows_->offer(at)));
        (void)gather("seen");
    }

private:
    u32 const rank_;
    int const gpu_;
    Runtime runtime_;
    Endpoint mine_;
    std::vector<Endpoint> all_;
    Members members_;
    std::shared_ptr<GpuWindows> windows_;
    u64 step_ = 0;
};

void share_windows(u32 rank, u32 size, std::string const& how) {
    WindowMember member(rank, size, how);
    require(member.meet() == (how == "peers"), "they share windows, or not");
    if (how != "peers") return;
    constexpr u64 kBytes = 3 << 20;
    void* first = nullptr;
    for (u32 round = 0; round < 3; ++round) {
        require(member.meet(), "they do not meet again");
        auto const window = member.make(kBytes);
        first = first == nullptr ? window.get() : first;
        require(window.get() == first, "a window that came back is not given out again");
        require(member.write({window}, 10 * round) == (round == 0), "opened anew, or not");
    }
    // A larger one beside it, which one process alone has trimmed meanwhile.
    require(member.write({member.make(kBytes), member.make(4 * kBytes)}, 50), "not opened anew");
    if (rank == 1) member.trim();
    require(member.write({member.make(kBytes)}, 60), "a window that was freed was known");
    require(!member.write({member.make(kBytes)}, 70), "a window was not known");
    member.give_up(member.make(kBytes));
    require(member.write({member.make(kBytes)}, 80), "a window that was open was given out again");
    // What one process alone knows all find when they meet next.
    if (rank == 2) member.do_without();
    require(!member.meet(), "they share windows that one of them does without");
}

}  // namespace
}  // namespace mgi::test

int main(int count, char** words) {
    if (count != 5) return 2;
    alarm(120);  // whoever started it may be gone
    auto const number = [&](int index) { return mgi::device::u32(std::stoul(words[index])); };
    try {
        if (std::string(words[1]) == "exchange") {
            mgi::test::exchange(number(2), number(3), words[4]);
        } else if (std::string(words[1]) == "windows") {
            mgi::test::share_windows(number(2), number(3), words[4]);
        } else {
            bool const stopped = std::string(words[1]) == "stop";
            mgi::test::lose(number(2), number(3), words[4], stopped);
        }
        return 0;
    } catch (std::exception const& error) {
        std::printf("rank %s: %s\n", words[2], error.what());
        return 1;
    }
}
