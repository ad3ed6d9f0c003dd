/// \file
/// What the exchange benchmark launches: the exchange, and a plain copy of the same bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include <mgi/device.hpp>

#include "perf/rows.hpp"

namespace mgi::perf {

using Clock = std::chrono::steady_clock;

/// Where all groups of a run wait until the last one is there, so that no start-up is timed.
struct StartLine {
    std::atomic<std::uint32_t> missing{0};  ///< threads still to come
    std::atomic<bool> abandoned{false};

    /// False when the run was given up.
    bool wait() {
        missing.fetch_sub(1);
        for (std::uint32_t round = 0; missing.load() != 0; ++round) {
            if (abandoned.load()) return false;
            device::backoff(std::min(round, 63u));  // never sleep: everybody starts together
        }
        return !abandoned.load();
    }
};

/// What one thread of a run says of itself. On cache lines of its own.
struct alignas(128) ThreadResult {
    Clock::time_point start;
    Clock::time_point end;
    Checksum received;
};

/// One group's own words for a staged send: which of its threads have sent all.
struct alignas(128) GroupProgress {
    std::atomic<std::uint32_t> threads_sent{0};
};

/// A run at one endpoint, shared by its groups.
struct EndpointRun {
    Rows const* rows = nullptr;
    std::uint64_t slice = 0;  ///< rows that a group offers at a time
    bool sends = true;        ///< or only receives
    StartLine* line = nullptr;
    std::vector<device::Channel>
        inboxes;                          ///< the channel at each destination that is received here
    std::vector<ThreadResult> results;    ///< by group and thread
    std::vector<GroupProgress> progress;  ///< by group
};

/// The part of `total` that member `index` of `count` gets.
struct Part {
    std::uint64_t first;
    std::uint64_t last;

    Part(std::uint64_t total, std::uint32_t index, std::uint32_t count)
        : first(total * index / count), last(total * (index + 1) / count) {}
};

/// Receives at all of an endpoint's destinations, in turn, for one group.
class Inboxes {
public:
    explicit Inboxes(EndpointRun const& run) : run_(run), ended_(run.inboxes.size()) {}

    /// Consumes the calling thread's share of what there is, at most `kTurn` batches at each
    /// destination. Ok: there was something; End: nothing more will come.
    device::Status receive(device::Group const& group, device::Shared& shared, Checksum& received) {
        bool some = false;
        bool open = false;
        for (std::size_t i = 0; i < ended_.size(); ++i) {
            device::Status status = ended_[i] ? device::Status::End : device::Status::Ok;
            for (std::uint32_t turn = 0; turn < kTurn && status == device::Status::Ok; ++turn) {
                device::ReceivedBatch batch;
                status = run_.inboxes[i].recv(group, shared, batch);
                if (status == device::Status::Error) return status;
                if (status != device::Status::Ok) break;
                received.add(consume(group, batch, run_.rows->columns()));
                run_.inboxes[i].release(group, shared, batch);
                some = true;
            }
            ended_[i] = status == device::Status::End;
            open = open || !ended_[i];
        }
        return some ? device::Status::Ok : open ? device::Status::Pending : device::Status::End;
    }

private:
    static constexpr std::uint32_t kTurn = 64;

    EndpointRun const& run_;
    std::vector<bool> ended_;
};

/// The paper's Figure 3: send, receive while there is something, flush, receive until the end.
class ExchangeKernel {
public:
    void operator()(device::Group const& group, device::Shared& shared,
                    device::Channel const& channel, EndpointRun* run) const {
        ThreadResult& result = run->results[group.block * group.threads + group.thread];
        if (!run->line->wait()) return;
        result.start = Clock::now();
        Part rest(run->rows->size(), group.block, group.blocks);
        std::vector<device::ColumnView> views;
        std::uint64_t const slice = run->slice;
        Inboxes inboxes(*run);
        bool flushed = !run->sends;
        for (std::uint32_t idle = 0;;) {
            if (rest.first < rest.last) {
                // A slice at a time, so that what arrives is consumed in between.
                std::uint64_t const count = std::min(slice, rest.last - rest.first);
                auto const sent =
                    channel.send(group, shared, run->rows->slice(rest.first, count, views));
                if (sent.status == device::Status::Error) return;
                rest.first += sent.rows;
                if (sent.rows != 0) idle = 0;
            } else if (!flushed) {
                device::Status const status = channel.flush(group, shared);
                if (status == device::Status::Error) return;
                flushed = status == device::Status::Ok;
            }
            device::Status const status = inboxes.receive(group, shared, result.received);
            if (status == device::Status::End && flushed) break;
            if (status == device::Status::Error) return;
            if (status == device::Status::Ok) {
                idle = 0;
            } else if (rest.first == rest.last || idle > 0) {
                device::backoff(idle++);
            } else {
                ++idle;
            }
        }
        result.end = Clock::now();
    }
};

/// The same, each thread sending its own rows one by one through the stage buffer of its group.
template <std::uint32_t Words>
class StagedExchangeKernel {
public:
    void operator()(device::Group const& group, device::Shared& shared,
                    device::Channel const& channel, EndpointRun* run) const {
        struct Row {
            std::int64_t words[Words];
        };
        std::uint32_t const index = group.block * group.threads + group.thread;
        ThreadResult& result = run->results[index];
        std::atomic<std::uint32_t>& threads_sent = run->progress[group.block].threads_sent;
        if (!run->line->wait()) return;
        result.start = Clock::now();
        auto const* const rows = reinterpret_cast<Row const*>(run->rows->words());
        Part rest(run->rows->size(), index, group.blocks * group.threads);
        Inboxes inboxes(*run);
        bool counted = false;
        bool flushed = false;
        for (std::uint32_t idle = 0;;) {
            for (std::uint32_t i = 0; i < kSlice && rest.first < rest.last; ++i, ++rest.first) {
                if (channel.send_row(group, rows[rest.first]).rows == 0) break;
                idle = 0;
            }
            if (rest.first == rest.last && !counted) {
                counted = true;
                threads_sent.fetch_add(1);
            }
            // All threads of the group see the same number: it stands still between the barriers.
            group.sync();
            bool const all_sent = threads_sent.load() == group.threads;
            group.sync();
            if (all_sent && !flushed) {
                device::Status const status = channel.flush(group, shared);
                if (status == device::Status::Error) return;
                flushed = status == device::Status::Ok;
            }
            device::Status const status = inboxes.receive(group, shared, result.received);
            if (status == device::Status::End && flushed) break;
            if (status == device::Status::Error) return;
            if (status == device::Status::Ok)
                idle = 0;
            else
                device::backoff(idle++);
        }
        result.end = Clock::now();
    }

private:
    static constexpr std::uint32_t kSlice = 4096;
};

/// Copies the endpoint's bytes with memcpy, each thread its part.
class CopyKernel {
public:
    void operator()(device::Group const& group, device::Shared&, EndpointRun* run, char* to,
                    std::uint64_t bytes) const {
        std::uint32_t const index = group.block * group.threads + group.thread;
        if (!run->line->wait()) return;
        run->results[index].start = Clock::now();
        Part const part(bytes, index, group.blocks * group.threads);
        auto const* const from = reinterpret_cast<char const*>(run->rows->words());
        std::memcpy(to + part.first, from + part.first, part.last - part.first);
        run->results[index].end = Clock::now();
    }
};

}  // namespace mgi::perf
