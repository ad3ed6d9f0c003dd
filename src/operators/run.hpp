// One run of an operator: its channels, its groups at every endpoint, and what goes wrong there.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <mgi/operators.hpp>

#include "operators/budget.hpp"
#include "operators/caller.hpp"
#include "operators/conversation.hpp"
#include "operators/input.hpp"
#include "operators/large_rows.hpp"

namespace mgi::operators {

// A channel that an operator wants. Endpoints are named by their places among the operator's.
struct Flow {
    std::string name;
    std::vector<u32> sources;
    std::vector<u32> destinations;
    std::vector<u32> owners;  // Routing::owners
    bool keeps = false;       // received batches can be kept
    bool again = false;       // its rows have gone through another one, and are not counted twice
};

// Owns the operator's channels, which are gone when it is. The first failure of any group fails all
// channels, so that every other group comes to its end, and is what `run` throws. Thread-safe where
// groups call it. Every process that talks has a run of its own, with groups at its endpoints.
class Run {
public:
    Run(Runtime& runtime, Conversation& talk, std::vector<Endpoint> const& endpoints,
        OperatorOptions const& options);
    ~Run();
    Run(Run const&) = delete;
    Run& operator=(Run const&) = delete;

    // A channel from all endpoints to all, partitioned by the named keys. With `keeps`, received
    // batches can be kept. The segments are made large enough for the longest row, or longer rows have a way of their own.
    Passage open(std::string const& name, Schema const& schema,
                 std::vector<std::string> const& keys, TextNeeds const& texts, bool keeps);
    // The same with any routing.
    Passage open(std::string const& name, Schema const& schema, Routing const& routing,
                 TextNeeds const& texts, bool keeps);
    // Channels among some of the endpoints, by the same keys and of the same rows. Every process names
    // all of them in the same order; none comes of one that has no endpoint of this process.
    std::vector<Passage> open(std::vector<Flow> const& flows, Schema const& schema,
                              std::vector<std::string> const& keys, TextNeeds const& texts);
    std::vector<Passage> open(std::vector<Flow> const& flows, Schema const& schema,
                              Routing const& routing, TextNeeds const& texts);

    // Whether an endpoint is this process' own.
    [[nodiscard]] bool mine(std::size_t endpoint) const { return groups_[endpoint] != 0; }
    // Groups of an endpoint; none of another process'.
    [[nodiscard]] u32 groups(std::size_t endpoint) const { return groups_[endpoint]; }
    [[nodiscard]] std::vector<Endpoint> const& endpoints() const { return endpoints_; }

    using Body = std::function<void(std::size_t endpoint, device::Group const&, device::Shared&)>;
    // Runs `body` in every group of every endpoint of this process and waits for all of them, and for
    // all processes. Throws the first failure; Error(Interrupted) when the caller cancels.
    void run(Body const& body);

    // Whether a group has failed or the operator was cancelled: groups that wait for each other ask.
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    // For tables, and for results that are not kept segments, which the channel counts.
    [[nodiscard]] Budget& budget() { return budget_; }
    // Throws Error(Interrupted) then, or where a channel has failed: long loops that call no channel ask now and then.
    void check() const;
    // Fills in the report, if there is one; before the channels are gone.
    void report(OperatorReport* report) const;

private:
    // What of a channel a report counts as moved: pieces are parts of rows, and some rows go through two channels.
    enum class Counted : u8 { Rows, Pieces, Nothing };

    // `Launch` and `std::function` want plain values.
    struct Kernel {
        Run* run;
        Body const* body;
        std::size_t endpoint;
        void operator()(device::Group const& group, device::Shared& shared) const;
    };

    [[nodiscard]] ChannelSpec spec_of(Flow const& flow, Schema const& schema,
                                      Routing const& routing, TextNeeds const& texts) const;
    [[nodiscard]] ChannelSpec pieces_of(Flow const& flow, Routing const& routing) const;
    // With channels for the rows that do not fit the segments of these.
    std::vector<Passage> with_pieces(std::vector<Flow> const& flows, Routing const& routing,
                                     std::vector<Channel> const& channels);
    [[nodiscard]] bool takes_part(Flow const& flow) const;
    std::vector<Channel> create(std::vector<Flow> const& flows,
                                std::vector<ChannelSpec> const& specs, Counted counted);
    void close_channels(std::size_t left);
    void record(std::exception_ptr failure);
    void fail_channels(ErrorCode code, std::string const& message);

    Runtime runtime_;
    Conversation& talk_;
    std::string const& what_;
    std::vector<Endpoint> endpoints_;
    OperatorOptions options_;
    std::vector<u32> groups_;
    u32 most_groups_ = 0;  // of an endpoint of any process
    u64 memory_;           // that is left in every process
    std::vector<Channel> channels_;
    std::vector<Counted> counted_;                   // by channel
    std::vector<std::shared_ptr<LargeRows>> large_;  // by channel; none but of pieces
    Budget budget_;
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
    bool followed_ = false;  // it came when a channel had failed already
    double seconds_ = 0;
};

// Throws why a device call returned Error: the channel's failure, or `code`.
[[noreturn]] void throw_failure(Channel const& channel, ErrorCode code);

// The table of an endpoint, of what each of its groups has made; takes the batches.
Table table_of(Schema const& schema, std::vector<std::vector<RecordBatch>>& groups);

// A group's sending end of a passage: columns that are to go, and how many rows of them went.
class Outbox {
public:
    Outbox(Passage const& passage, Endpoint endpoint)
        : channel_(passage.rows), device_(channel_.on(endpoint)) {
        if (passage.large != nullptr) large_.emplace(passage, endpoint);
    }

    [[nodiscard]] bool empty() const { return sent_ == count_; }
    // Takes columns to send; what they point to stays until the outbox is empty.
    void put(std::vector<ColumnView> columns, u64 count) {
        columns_ = std::move(columns);
        count_ = count;
        sent_ = 0;
    }
    // The vector of the columns that went, to be filled again.
    [[nodiscard]] std::vector<ColumnView> take_columns() { return std::move(columns_); }
    // Sends what there is room for; false when there was none. Throws Error.
    bool send(device::Group const& group, device::Shared& shared);
    // True once every row sent stands in its receive queue; to be called until then. Throws Error.
    bool flush(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool flushed() const { return flushed_; }

private:
    bool send_large(device::Group const& group, device::Shared& shared);
    [[nodiscard]] device::Batch left() const;
    void have_gone(u64 rows);

    Channel channel_;
    device::Channel device_;
    std::optional<LargeRowSender> large_;
    std::vector<ColumnView> columns_;
    u64 count_ = 0;
    u64 sent_ = 0;
    bool flushed_ = false;
};

// A group's receiving end of a passage.
class Inbox {
public:
    Inbox(Passage const& passage, Endpoint endpoint)
        : channel_(passage.rows), endpoint_(endpoint), device_(channel_.on(endpoint)) {
        if (passage.large != nullptr) large_.emplace(passage, endpoint);
    }

    // Hands up to `most` batches to `use(batch)`, which releases or keeps each; returns how many.
    // Throws Error.
    template <class Use>
    u32 receive(device::Group const& group, device::Shared& shared, u32 most, Use&& use) {
        u32 batches = 0;
        device::ReceivedBatch batch;
        while (batches < most && large_ && large_->receive(group, shared, batch)) {
            use(batch);
            ++batches;
        }
        while (batches < most && !rows_ended_) {
            device::CallResult const result = device_.recv(group, shared, batch);
            if (result == device::Status::Pending) break;
            if (result == device::Status::End) {
                rows_ended_ = true;
            } else if (result == device::Status::Error) {
                throw_failure(channel_, result.code);
            } else {
                use(batch);
                ++batches;
            }
        }
        return batches;
    }
    void release(device::Group const& group, device::Shared& shared,
                 device::ReceivedBatch const& batch) const {
        if (ImageAssembler::made(batch)) return large_->assembler().release(batch);
        device_.release(group, shared, batch);
    }
    [[nodiscard]] RecordBatch keep(device::ReceivedBatch const& batch) const {
        if (ImageAssembler::made(batch)) return large_->assembler().keep(batch);
        return channel_.keep(endpoint_, batch);
    }
    [[nodiscard]] bool ended() const { return rows_ended_ && (!large_ || large_->ended()); }

private:
    Channel channel_;
    Endpoint endpoint_;
    device::Channel device_;
    std::optional<LargeRowReceiver> large_;
    bool rows_ended_ = false;
};

// Waits for the other groups of an endpoint at a point of an operator, without blocking.
class Meeting {
public:
    explicit Meeting(u32 groups) : groups_(groups) {}
    // Says that a group has come; true for the last one. What groups did before is seen by whoever
    // finds the meeting complete.
    bool arrive() { return arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == groups_; }
    [[nodiscard]] bool complete() const {
        return arrived_.load(std::memory_order_acquire) == groups_;
    }

private:
    u32 groups_;
    std::atomic<u32> arrived_{0};
};

}  // namespace mgi::operators
