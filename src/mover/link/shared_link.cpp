#include "mover/link/shared_link.hpp"

#include <chrono>
#include <condition_variable>
#include <utility>

namespace mgi::mover::link {
namespace {

// For the last word to be written.
constexpr std::chrono::milliseconds kLeave{500};

}  // namespace

// What who moves wires calls: a link, and the inbox in front of it.
class SharedLink::Client final : public transport::wire::WireClient {
public:
    Client(LinkOptions options, LinkOwner& owner, NicBoard& board)
        : link_(std::move(options), owner, board, WireThread::now()) {}

    // By any thread.
    void put(Transfer transfer) {
        std::lock_guard const lock(mutex_);
        transfers_.push_back(std::move(transfer));
    }
    void put(Word word) {
        std::lock_guard const lock(mutex_);
        words_.push_back(std::move(word));
    }
    void wait_until_finished() {
        std::unique_lock lock(mutex_);
        finished_.wait_for(lock, kLeave, [this] { return is_finished_; });
    }

    // By any thread.
    [[nodiscard]] std::shared_ptr<LinkCounts const> counts() const { return link_.counts(); }

    // By who moves wires, one thread at a time, as all below.
    Link& link() {
        take_in();
        return link_;
    }

    bool opened(std::uint32_t slot, std::uint64_t generation, Time now) override {
        return link_.opened(slot, generation, now);
    }
    void not_made(std::uint32_t slot, std::uint64_t generation, std::uint32_t hop,
                  std::string const& why, Time now) override {
        link_.not_made(slot, generation, hop, why, now);
    }
    void closed(std::uint32_t slot, std::uint64_t generation, std::string const& why,
                Time now) override {
        link_.closed(slot, generation, why, now);
    }
    void answered(std::uint32_t slot, std::uint64_t generation, Time when, Time now) override {
        link_.answered(slot, generation, when, now);
    }
    std::size_t gather(std::uint32_t slot, std::span<iovec> pieces, Time now) override {
        take_in();
        return link_.gather(slot, pieces, now);
    }
    void sent(std::uint32_t slot, std::size_t bytes, Time now) override {
        link_.sent(slot, bytes, now);
    }
    std::size_t scatter(std::uint32_t slot, std::span<iovec> pieces) override {
        return link_.scatter(slot, pieces);
    }
    void received(std::uint32_t slot, std::size_t bytes, Time now) override {
        link_.received(slot, bytes, now);
    }
    Time tick(Time now) override {
        take_in();
        Time const next = link_.tick(now);
        if (link_.finished()) {
            std::lock_guard const lock(mutex_);
            is_finished_ = true;
            finished_.notify_all();
        }
        return next;
    }
    void take_commands(std::vector<Command>& commands) override { link_.take_commands(commands); }

private:
    void take_in() {
        {
            std::lock_guard const lock(mutex_);
            transfers_.swap(taken_transfers_);
            words_.swap(taken_words_);
        }
        for (Transfer& transfer : taken_transfers_) link_.start(std::move(transfer));
        for (Word& word : taken_words_) link_.say(std::move(word));
        taken_transfers_.clear();
        taken_words_.clear();
    }

    std::mutex mutex_;
    std::condition_variable finished_;
    bool is_finished_ = false;
    std::vector<Transfer> transfers_;
    std::vector<Word> words_;
    std::vector<Transfer> taken_transfers_;  // of who moves wires; kept for their memory
    std::vector<Word> taken_words_;
    Link link_;
};

SharedLink::SharedLink(WireThread& thread, LinkName const& name, Secret const& secret,
                       Routes routes, LinkOptions options, LinkOwner& owner, NicBoard& board)
    : thread_(thread), name_(name) {
    options.dials = bool(routes);
    bool const by_streams = options.by_streams;
    client_ = std::make_shared<Client>(std::move(options), owner, board);
    bell_ = thread_.add(name_, secret, std::move(routes), client_, by_streams);
}

SharedLink::~SharedLink() {
    close(ErrorCode::Closed, "its runtime has ended");
    client_->wait_until_finished();
    thread_.remove(name_);
}

void SharedLink::begin() {
    thread_.run([&] { client_->link().begin(WireThread::now()); });
    bell_->ring();
}

void SharedLink::set_weight(std::uint64_t channel, double weight) {
    thread_.run([&] { client_->link().set_weight(channel, weight); });
}

void SharedLink::start(Transfer transfer) {
    client_->put(std::move(transfer));
    bell_->ring();
}

void SharedLink::say(Word word) {
    client_->put(std::move(word));
    bell_->ring();
}

void SharedLink::close(ErrorCode code, std::string const& why) {
    thread_.run([&] { client_->link().close(code, why); });
    bell_->ring();
}

bool SharedLink::settled() const {
    bool settled = false;
    thread_.run([&] {
        Link const& link = client_->link();
        settled = link.over() || link.settled();
    });
    return settled;
}

bool SharedLink::hopeful() const {
    bool hopeful = false;
    thread_.run([&] { hopeful = client_->link().hopeful(WireThread::now()); });
    return hopeful;
}

std::string SharedLink::describe() const {
    std::string text;
    thread_.run([&] { text = client_->link().describe(WireThread::now()); });
    return text;
}

std::shared_ptr<LinkCounts const> SharedLink::counts() const {
    return client_->counts();
}

}  // namespace mgi::mover::link
