// The thread that moves the bytes of all links of a process over TCP, or another medium. It sleeps while there
// is nothing to do, and copies nothing: what is sent is gathered from its owner's memory, what comes is
// scattered into it. Who waits for what it brings may do its work meanwhile (`drive`).
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/stand_in.hpp"
#include "transport/wire/encryption.hpp"
#include "transport/wire/handshake.hpp"
#include "transport/wire/medium.hpp"
#include "transport/wire/passage.hpp"
#include "transport/wire/socket.hpp"
#include "transport/wire/wire_client.hpp"

namespace mgi::transport::wire {

// Between which addresses a wire runs.
struct Route {
    Address local;                    // of the NIC; empty: whichever the system takes
    Address remote;                   // of the other end, or of the first relay
    LinkName relays{};                // whose link's secret each relay knows, too
    std::vector<Onward> onward = {};  // where each relay in turn passes it on to
    Time limit = kNever;              // for each step of making it, if less than the thread's
};

// The route of each wire, at the end that dials; none at the one that awaits. Called in the thread's turns; what it
// throws is why the wire cannot be made.
using Routes = std::function<Route(std::uint32_t slot, std::uint64_t generation)>;
// One for each slot; none for none.
Routes routes_of(std::vector<Route> by_slot);

struct WireThreadOptions {
    Time dial_limit = 2 * kSecond;     // until a connection is a wire, or a relay has passed it on
    std::size_t most_strangers = 256;  // connections that have not proven anything yet
    std::size_t most_passed_on = 64;   // connections between others that go through this process
    // What moves the bytes of the NIC with this address; none: TCP. Called by the thread, which ends it. What
    // it throws is why a wire cannot be made, or addresses cannot be had.
    OpenMedium medium = {};
    // Of all wires, which cannot be with a medium; those whose other end does not do the same are not made.
    EncryptionOptions encryption = {};
};

// Thread-safe; what says so is called by the thread itself, or by one that drives.
class WireThread {
public:
    // Throws Error(InvalidArgument) for encryption and a medium together.
    explicit WireThread(WireThreadOptions options = {});
    ~WireThread();
    WireThread(WireThread const&) = delete;
    WireThread& operator=(WireThread const&) = delete;

    // Awaits wires on these addresses and no others; returns them with the ports they got. Throws
    // Error(Refused) that says which one cannot be had.
    std::vector<Address> listen(std::vector<Address> const& addresses);

    // Rung by whoever has given a client something to send.
    class Bell {
    public:
        void ring() noexcept;

    private:
        friend class WireThread;
        std::atomic<bool> rung_{false};
        WireThread* thread_ = nullptr;
    };
    // Moves a link's bytes; `by_streams`: by media alone, since some of them are in GPUs' memory. Throws
    // Error(InvalidArgument) where the link is there already.
    std::shared_ptr<Bell> add(LinkName const& name, Secret const& secret, Routes routes,
                              std::shared_ptr<WireClient> client, bool by_streams = false);
    // Ends the link's wires; when this returns its client is not called any more.
    void remove(LinkName const& name);

    // Why not all of its media can move what lies in GPUs' memory; empty: they can.
    std::string why_not_gpus();
    // Lets them do so with this memory while what is returned lives, which the thread outlives, and links that use it
    // do not. Throws Error(Refused).
    std::shared_ptr<void const> add_memory(GpuMemory const& memory);

    // Where this process passes connections on to: nothing where there is no such member, or NIC.
    using WaysOn = std::function<std::optional<Route>(Onward const&)>;
    // Joins others' connections, as their relay: of those who prove the secret of `name`, and to where `ways`
    // says. Throws Error(InvalidArgument) where there is one of this name already.
    void pass_on(LinkName const& name, Secret const& secret, WaysOn ways);
    // From now on no more; those that are joined go on until they end, or nothing passes for a time.
    void stop_passing_on(LinkName const& name);
    struct Passed {
        std::size_t connections = 0;  // joined now
        std::uint64_t bytes = 0;      // passed on, in all
    };
    [[nodiscard]] Passed passed_on();

    // Runs something on the thread, between its calls of clients, and waits for it. Throws what it
    // throws. On the thread itself, or one that drives: at once.
    void run(std::function<void()> const& what);

    // Moves on the calling thread what wires can move now, unless another one does; never waits. The thread
    // rests while others drive, and sees to all that is no wire. True if there was anything to move. Not
    // called any more when the thread ends.
    bool drive() noexcept;

    static Time now();
    // How often the thread has woken.
    [[nodiscard]] std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }

private:
    // `Awaiting`: that the way on is there; `Passing`: joined to another one.
    enum class Stage : std::uint8_t { Connecting, Shaking, Open, Draining, Awaiting, Passing };
    struct Entry;
    struct Connection {
        std::uint64_t id = 0;
        Descriptor socket;
        Stage stage = Stage::Connecting;
        Entry* entry = nullptr;  // none: a stranger, who is draining, or others' that are passed on
        std::uint32_t slot = 0;
        std::uint64_t generation = 0;
        std::unique_ptr<Handshake> handshake;
        Address peer;
        Time deadline = kNever;
        Time drained = kNever;         // the last one, of who drains
        bool blocked = false;          // the socket takes no more for now
        Route route;                   // of one that is dialed
        std::size_t relay = 0;         // which of its relays is asked next
        Connection* joined = nullptr;  // what comes goes out there
        std::shared_ptr<Passage> passage;
        std::unique_ptr<Stream> stream;               // none: its bytes go over the socket
        std::unique_ptr<Encryption> encryption = {};  // of those that do; none: as they are
    };
    struct Relay {
        Secret secret{};
        WaysOn ways;
    };
    struct Entry {
        LinkName name{};
        Secret secret{};
        Routes routes;
        std::shared_ptr<WireClient> client;
        bool by_streams = false;
        std::shared_ptr<Bell> bell;
        std::vector<Connection*> connections;
        Time next = 0;
        bool touched = true;
    };
    struct Listener {
        std::uint64_t id = 0;
        Descriptor socket;
        Time retry = kNever;  // the system had no room for a connection
    };
    struct Task {
        std::function<void()> const* what = nullptr;
        std::exception_ptr error;
        bool done = false;
    };

    // Why a wire is of no use to a link that is for media alone.
    static constexpr char const* kOverTcp =
        "it would be one over TCP, and its link's rows are in GPUs' memory; let all processes say "
        "MGI_WIRES=ucx";

    // Who moves wires, one thread at a time.
    class Role;

    // wire_thread.cpp
    void loop();
    int step(int wait);
    bool turn(std::span<epoll_event const> events, bool whole);
    [[nodiscard]] bool others_work() const;
    void ring() noexcept;
    void leave_it() noexcept;
    void run_tasks();
    void serve(Entry& entry);
    void serve_rounds(Entry& entry);
    void expire();
    [[nodiscard]] int timeout() const;
    [[nodiscard]] Connection* find(std::uint64_t id);

    // connections.cpp
    Connection& adopt(Descriptor socket, Stage stage, Time deadline);
    void watch_for(std::uint32_t events, std::uint64_t id, Descriptor const& socket);
    void watch(Connection& connection, bool writable);
    void drop(Connection& connection);
    void gone(Connection& connection, std::string const& why);
    bool obey(Entry& entry);
    void dial(Entry& entry, Command const& command);
    void end(Entry& entry, Command const& command);
    void accept(Listener& listener);
    void watch(Listener const& listener, bool open);
    void on_event(Connection& connection, std::uint32_t events);
    void shake(Connection& connection);
    void settle(Connection& connection, Handshake::State state);
    void open(Connection& connection, std::string const& far_card);
    void encrypt(Connection& connection);
    bool send_handshake(Connection& connection);
    void read(Connection& connection);
    bool finish(Connection& connection);
    void drain(Connection& connection);
    void write(Connection& connection);
    void refuse(Connection& connection, std::string const& why, bool loud);
    [[nodiscard]] std::optional<Secret> secret_of(LinkName const& name) const;

    // streams.cpp
    Medium* medium_at(Address const& address);
    void remove_memory(GpuMemory const& memory) noexcept;
    bool begin_stream(Connection& connection);
    bool arm();
    static bool is_ready(Connection const& connection);
    void look_at_streams();
    void beat(Connection& connection);

    // passing_on.cpp
    void go_on(Connection& connection);
    void join(Connection& connection);
    void decline(Connection& connection, std::string const& why);
    void joined(Connection& connection);
    void pass(Connection& connection);
    void pass_more();

    WireThreadOptions options_;
    Descriptor epoll_;
    Descriptor event_;
    std::atomic<bool> awake_{false};
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> wakeups_{0};
    std::mutex mutex_;
    std::condition_variable done_;
    std::deque<Task*> tasks_;
    std::mutex role_;
    std::atomic<std::thread::id> in_role_;
    std::atomic<bool> wanted_{false};   // by the thread itself: others leave the role to it
    std::atomic<bool> left_{false};     // there is something that only the thread itself does
    std::atomic<bool> spoiled_{false};  // a driver's turn has thrown
    StandIn others_;
    Time whole_turn_ = 0;  // the thread's own: its last one

    // Of whoever has the role.
    std::map<LinkName, std::unique_ptr<Entry>> entries_;
    std::map<std::string, std::unique_ptr<Medium>> media_;  // by host
    std::vector<GpuMemory> memories_;                       // of all of them
    std::map<LinkName, Relay> relays_;
    Passed passed_;
    std::set<std::uint64_t> busy_;  // connections on which there is more to pass on
    std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
    std::map<std::uint64_t, Listener> listeners_;
    std::vector<Command> commands_;
    std::uint64_t next_id_ = 1;
    std::size_t strangers_ = 0;
    Time now_ = 0;
    std::size_t most_read_ = 0;  // from one wire in this turn
    Time last_warning_ = 0;
    std::uint64_t unsaid_ = 0;

    std::thread thread_;  // last: it uses all of the above
};

}  // namespace mgi::transport::wire
