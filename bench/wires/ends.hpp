// The two ends of a link that is measured: one sends segments, the other one takes them into a pool.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <mgi/device/atomics.hpp>

#include "mover/link/shared_link.hpp"

namespace mgi::bench {

struct LinkSetup {
    std::vector<mover::link::Route> routes;  // of the end that dials; none at the other one
    std::uint32_t wires = 1;                 // of the link
    std::uint32_t nics = 1;
    bool driven = false;  // who waits drives the wires, as a kernel does
};

// Both ends know them; what is measured is no secret.
mover::link::LinkName bench_link();
mover::link::LinkName bench_relays();
mover::link::Secret bench_secret();
mover::link::LinkOptions bench_options(LinkSetup const& setup);

// How an end waits: asleep, or by driving the wires meanwhile.
class Waiting {
public:
    Waiting(transport::wire::WireThread& thread, bool driven) : thread_(thread), driven_(driven) {}
    // Until `done`, which is looked at under `mutex`.
    template <class Done>
    void wait(std::mutex& mutex, std::condition_variable& changed, Done const& done) const {
        std::unique_lock lock(mutex);
        if (!driven_) return changed.wait(lock, done);
        for (std::uint32_t round = 0; !done();) {
            lock.unlock();
            if (thread_.drive()) {
                round = 0;
            } else {
                device::backoff(round++);
            }
            lock.lock();
        }
    }

private:
    transport::wire::WireThread& thread_;
    bool driven_;
};

class SendingEnd final : public mover::link::LinkOwner {
public:
    SendingEnd(transport::wire::WireThread& thread, LinkSetup const& setup);
    ~SendingEnd() override;

    // Seconds until all have been acknowledged. Throws Error when the link fails.
    double send(std::size_t segments, std::size_t bytes);
    // Seconds of so many round trips of a word.
    double round_trips(std::size_t count);

    bool target(mover::link::Key const&, std::uint64_t, std::uint64_t,
                std::vector<iovec>&) override;
    void arrived(mover::link::Key const&, std::uint64_t) override;
    void acknowledged(std::uint64_t token) override;
    void word(mover::link::Word const& word) override;
    void failed(ErrorCode code, std::string const& why) override;

private:
    void check();

    Waiting const waiting_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t acknowledged_ = 0;
    std::uint64_t started_ = 0;
    std::uint64_t answered_ = 0;
    std::uint64_t asked_ = 0;
    std::string why_;
    std::vector<char> memory_;
    mover::link::NicBoard board_;
    std::unique_ptr<mover::link::SharedLink> link_;
};

class ReceivingEnd final : public mover::link::LinkOwner {
public:
    ReceivingEnd(transport::wire::WireThread& thread, LinkSetup const& setup);
    ~ReceivingEnd() override;

    // Until the other end has left.
    void wait();

    bool target(mover::link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                std::vector<iovec>& pieces) override;
    void arrived(mover::link::Key const&, std::uint64_t) override;
    void acknowledged(std::uint64_t) override;
    void word(mover::link::Word const& word) override;
    void failed(ErrorCode code, std::string const& why) override;

private:
    Waiting const waiting_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::vector<char> memory_;
    mover::link::NicBoard board_;
    std::unique_ptr<mover::link::SharedLink> link_;
};

}  // namespace mgi::bench
