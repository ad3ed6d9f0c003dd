// The application's side of the socket: calls of any thread, and one thread that speaks with the agent.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <mgi/cluster.hpp>

#include "control/local/socket.hpp"

namespace mgi {

class ClusterClient::Impl {
public:
    Impl(ClusterOptions const& options, std::shared_ptr<ClusterListener> listener);
    Impl(Impl const&) = delete;
    Impl& operator=(Impl const&) = delete;
    ~Impl() { close(); }

    /// Sends a request and waits for its answer; throws what the answer says, Timeout, Deleted, Refused.
    /// `fd`: what goes along, then what came along.
    /// `timeout` 0 is this client's own.
    control::Json call(control::Json request, control::Fd* fd = nullptr,
                       std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
    /// Sends a request whose answer nobody waits for.
    void post(control::Json request);
    void interrupt() noexcept;
    void close() noexcept;

    [[nodiscard]] std::string server() const;
    [[nodiscard]] std::vector<ClusterDevice> devices() const;
    void check_channel(std::uint32_t id) const;

private:
    using Clock = std::chrono::steady_clock;
    using Json = control::Json;

    struct Call {
        Json request;
        control::Fd brings;  // goes along
        control::Fd brought;
        std::optional<Json> answer;
        bool posted = false;  // nobody ever waited for it
        bool left = false;    // whoever called has given up
    };
    /// Who has left a channel that is held: endpoints of all processes, and perhaps this client.
    struct Left {
        std::set<std::uint32_t> endpoints;
        bool gone = false;  // this client's have all left, and wait for the channel's end
        bool creator = false;
    };
    /// What proves to an agent that was started again that this client holds a channel, and has created it.
    struct Tickets {
        std::string plan;
        std::string creator;
    };
    struct End {
        bool failed = false;
        std::string why;
    };
    /// What the listener is told once the lock is free.
    using News = std::vector<std::function<void(ClusterListener&)>>;

    // The thread's own work; the lock is held where News are filled in.
    void run() noexcept;
    void connect(News& news);
    void lose(Error const& why, News& news);
    void lose_quietly(Error const& why);
    void exchange(News& news);
    void take(Json const& message, control::Fd fd, News& news);
    void take_hello(Json const& message, News& news);
    void take_answer(Json const& message, control::Fd fd);
    void take_notice(Json const& message, News& news);
    void note_made(Json const& request, Json const& answer);
    void note_tickets(std::uint32_t channel, Json const& message);
    void undo(Json const& request, Json const& answer);
    void note_left(std::uint32_t channel);
    void put_parts_again();
    void put_again(Json request, control::Fd const& fd);
    void forget_endpoint(std::uint32_t id);
    void forget_channel(std::uint32_t id);
    void send(Json const& message) { socket_->queue(control::frame_of(message)); }
    void send(Call const& call);
    [[nodiscard]] Json hello() const;
    [[nodiscard]] int wait_limit() const;
    void tell(News& news) noexcept;
    void report_use() noexcept;
    std::uint64_t queue(std::shared_ptr<Call> const& call, Json request,
                        std::chrono::milliseconds timeout);

    ClusterOptions const options_;
    std::string const client_;  // random: makes this client's requests unlike all others
    std::shared_ptr<ClusterListener> const listener_;

    mutable std::mutex lock_;
    std::condition_variable changed_;
    control::Waker waker_;
    bool closed_ = false;
    bool joined_ = false;        // hello was answered
    std::optional<Error> away_;  // why there is no agent now
    std::optional<Clock::time_point> retry_;
    std::chrono::milliseconds pause_;
    std::unique_ptr<control::MessageSocket> socket_;
    Clock::time_point next_report_{};
    std::uint64_t interrupts_ = 0;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, std::shared_ptr<Call>> calls_;
    std::string server_;
    std::vector<ClusterDevice> devices_;
    std::map<std::uint32_t, ClusterEndpoint> endpoints_;  // held
    std::map<std::uint32_t, ClusterPlan> channels_;       // held
    std::map<std::uint32_t, std::string> endpoint_tickets_;
    std::map<std::uint32_t, Tickets> channel_tickets_;
    std::map<std::uint32_t, Left> left_;                   // of those
    std::map<std::uint32_t, control::Fd> parts_;           // of those: put by this client
    control::Fd board_;                                    // as the agent gave it
    std::map<std::uint32_t, std::optional<End>> created_;  // by this client, until it deletes them
    std::map<std::uint32_t, End> ended_;  // others' channels that this client had a part in
    std::atomic<std::thread::id> own_thread_;
    std::mutex join_;
    std::thread thread_;
};

}  // namespace mgi
