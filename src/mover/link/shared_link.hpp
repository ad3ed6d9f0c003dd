// A link as the threads of a process share it: what they want is put into an inbox, which the thread
// that moves bytes empties.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mover/link/carrier.hpp"
#include "mover/link/link.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi::mover::link {

using transport::wire::LinkName;
using transport::wire::Route;
using transport::wire::Routes;
using transport::wire::routes_of;
using transport::wire::Secret;
using transport::wire::WireThread;

// Thread-safe, but for its construction and destruction. The owner is called by who moves wires, and
// may call all of this but the destructor. All but `start` and `say` wait for that thread: whoever calls
// them holds no lock that the owner takes when it is called.
class SharedLink final : public Carrier {
public:
    // `routes`: see WireThread::add; for the slots of `options`. `thread`, `owner` and `board`
    // outlive it. Throws Error(InvalidArgument) where there is a link of this name.
    SharedLink(WireThread& thread, LinkName const& name, Secret const& secret, Routes routes,
               LinkOptions options, LinkOwner& owner, NicBoard& board);
    // Ends it, as `close(Closed)` does, and waits, for a moment at most, until the other end can know.
    ~SharedLink() override;
    SharedLink(SharedLink const&) = delete;
    SharedLink& operator=(SharedLink const&) = delete;

    // As Link::begin.
    void begin();
    void set_weight(std::uint64_t channel, double weight);
    void start(Transfer transfer) override;
    void say(Word word) override;
    // The other end has all that was started and said; also when the link is over.
    [[nodiscard]] bool settled() const;
    // As Link::hopeful.
    [[nodiscard]] bool hopeful() const;
    // Ends the link and says why to the other end. The owner is not called any more when this returns; memory is
    // touched until the link is destroyed.
    void close(ErrorCode code, std::string const& why);
    [[nodiscard]] std::string describe() const;
    // As Link::counts; waits for nobody.
    [[nodiscard]] std::shared_ptr<LinkCounts const> counts() const;

private:
    class Client;
    WireThread& thread_;
    LinkName const name_;
    std::shared_ptr<Client> client_;
    std::shared_ptr<WireThread::Bell> bell_;
};

}  // namespace mgi::mover::link
