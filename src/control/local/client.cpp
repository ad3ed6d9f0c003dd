#include "control/local/client.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <system_error>

#include "control/local/use_words.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"
#include "core/process_limits.hpp"

namespace mgi {

using control::Json;
using std::chrono::milliseconds;

namespace {

// Between attempts to reach an agent that is gone; a restart takes a moment, an outage may take long.
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kReportPause{1000};
// How much longer than the agent, which says more about what did not answer, a caller waits.
constexpr milliseconds kAgentsTime{500};
// For what nobody waits for, before a client is closed.
constexpr milliseconds kGoodbye{1000};

std::string text_of(milliseconds time) {
    return std::to_string(time.count()) + " ms";
}

std::string random_name() {
    std::random_device device;
    constexpr char const* kDigits = "0123456789abcdef";
    std::string name;
    for (int word = 0; word < 4; ++word) {
        std::uint32_t bits = device();
        for (int digit = 0; digit < 8; ++digit, bits >>= 4) name += kDigits[bits & 15];
    }
    return name;
}

std::string program_name() {
    std::string name;
    std::ifstream("/proc/self/comm") >> name;
    // Any bytes may be a program's name; messages are UTF-8.
    for (char& c : name) c = c >= ' ' && c <= '~' ? c : '?';
    return name.empty() ? "process " + std::to_string(getpid()) : name;
}

ClusterOptions completed(ClusterOptions options) {
    if (options.agent.empty()) options.agent = control::default_socket();
    if (options.name.empty()) options.name = program_name();
    if (options.job_secret.empty()) options.job_secret = control::default_job_secret();
    if (options.timeout.count() <= 0) {
        throw Error(ErrorCode::InvalidArgument, "ClusterOptions::timeout is not more than 0");
    }
    // A deadline is a point in time that the clock can name.
    options.timeout = std::min(options.timeout, milliseconds(std::chrono::hours(24 * 365)));
    return options;
}

}  // namespace

ClusterClient::Impl::Impl(ClusterOptions const& options, std::shared_ptr<ClusterListener> listener)
    : options_(completed(options)),
      client_(random_name()),
      listener_(std::move(listener)),
      pause_(kFirstPause) {
    try {
        thread_ = std::thread([this] { run(); });
    } catch (std::system_error const& error) {
        throw Error(ErrorCode::OutOfMemory, "cannot start the thread that talks to the agent at " +
                                                options_.agent + ": " +
                                                no_thread_text(error.what()));
    }
    std::unique_lock lock(lock_);
    // An agent that is only busy, or being started again, is tried again.
    auto const refused = [&] { return away_ && away_->code() != ErrorCode::Timeout; };
    changed_.wait_for(lock, options_.timeout, [&] { return joined_ || refused(); });
    if (joined_) return;
    Error const why = away_ ? *away_
                            : Error(ErrorCode::Timeout, "the agent at " + options_.agent +
                                                            " has not answered a hello for " +
                                                            text_of(options_.timeout));
    lock.unlock();
    close();
    throw Error(why);
}

void ClusterClient::Impl::close() noexcept {
    {
        std::unique_lock lock(lock_);
        // The agent would take this client's end for that of what it has said that it leaves.
        auto const said = [&] {
            return std::none_of(calls_.begin(), calls_.end(),
                                [](auto const& entry) { return entry.second->posted; });
        };
        if (own_thread_.load() != std::this_thread::get_id()) {
            changed_.wait_for(lock, kGoodbye, said);
        }
        closed_ = true;
    }
    waker_.wake();
    changed_.notify_all();
    std::lock_guard const join(join_);
    if (thread_.joinable()) thread_.join();
}

// Numbers a request and sends it, now or once there is an agent. The caller holds the lock.
std::uint64_t ClusterClient::Impl::queue(std::shared_ptr<Call> const& call, Json request,
                                         milliseconds timeout) {
    std::uint64_t const id = next_id_++;
    request["id"] = id;
    request["timeout_ms"] = std::uint64_t(timeout.count());
    request["request"] = client_ + "-" + std::to_string(id);
    std::string const frame = control::frame_of(request);
    if (frame.size() > control::kMostRequestBytes) {
        throw Error(ErrorCode::InvalidArgument,
                    request["op"].get<std::string>() + " is a message of " +
                        std::to_string(frame.size()) + " bytes: at most " +
                        std::to_string(control::kMostRequestBytes) +
                        " are possible; endpoints that follow each other need fewest");
    }
    // What the agent would take for no message, text that is not UTF-8, is refused here.
    (void)control::message_from(std::string_view(frame).substr(4));
    call->request = std::move(request);
    calls_.emplace(id, call);
    if (joined_) send(*call);
    waker_.wake();
    return id;
}

void ClusterClient::Impl::post(Json request) {
    auto const call = std::make_shared<Call>();
    call->posted = true;
    std::lock_guard const lock(lock_);
    if (!closed_) queue(call, std::move(request), options_.timeout);
}

void ClusterClient::Impl::interrupt() noexcept {
    {
        std::lock_guard const lock(lock_);
        ++interrupts_;
    }
    changed_.notify_all();
}

void ClusterClient::Impl::send(Call const& call) {
    if (!call.brings) return send(call.request);
    socket_->queue(control::frame_of(call.request), control::duplicate(call.brings.get()));
}

Json ClusterClient::Impl::call(Json request, control::Fd* fd, milliseconds timeout) {
    if (timeout.count() <= 0) timeout = options_.timeout;
    if (std::this_thread::get_id() == own_thread_.load()) {
        throw Error(ErrorCode::Refused,
                    "a ClusterListener may not call its own client, whose thread runs it");
    }
    std::string const op = request["op"];
    auto const call = std::make_shared<Call>();
    if (fd != nullptr && *fd) {
        call->brings = std::move(*fd);
        request["fd"] = true;
    }
    std::unique_lock lock(lock_);
    if (closed_) throw Error(ErrorCode::Deleted, op + ": this client was closed");
    std::uint64_t const id = queue(call, std::move(request), timeout);
    std::uint64_t const interrupts = interrupts_;
    bool const ended = changed_.wait_for(lock, timeout + kAgentsTime, [&] {
        return call->answer || closed_ || interrupts_ != interrupts;
    });
    if (!call->answer) {
        call->left = true;
        if (!joined_) calls_.erase(id);
        if (closed_) throw Error(ErrorCode::Deleted, op + ": this client was closed");
        if (ended) throw Error(ErrorCode::Interrupted, op + " was interrupted");
        throw Error(ErrorCode::Timeout,
                    op + " had no answer for " + text_of(timeout) + ": " +
                        (away_ ? std::string(away_->what())
                               : "the agent at " + options_.agent + " does not answer"));
    }
    Json answer = std::move(*call->answer);
    if (fd != nullptr) *fd = std::move(call->brought);
    lock.unlock();
    if (control::has(answer, "error")) throw control::error_in(answer["error"]);
    return answer;
}

std::string ClusterClient::Impl::server() const {
    std::lock_guard const lock(lock_);
    return server_;
}

std::vector<ClusterDevice> ClusterClient::Impl::devices() const {
    std::lock_guard const lock(lock_);
    return devices_;
}

void ClusterClient::Impl::check_channel(std::uint32_t id) const {
    std::lock_guard const lock(lock_);
    auto const created = created_.find(id);
    auto const joined = ended_.find(id);
    End const* end = nullptr;
    if (created != created_.end() && created->second) end = &*created->second;
    if (joined != ended_.end()) end = &joined->second;
    if (end == nullptr) return;
    throw Error(end->failed ? ErrorCode::GroupFailed : ErrorCode::Deleted,
                "channel " + std::to_string(id) + " has ended: " + end->why);
}

// ---- the thread

void ClusterClient::Impl::run() noexcept {
    own_thread_ = std::this_thread::get_id();
    for (;;) {
        News news;
        int limit = 0;
        pollfd polled[2] = {{waker_.fd(), POLLIN, 0}, {-1, POLLIN, 0}};
        try {
            std::lock_guard const lock(lock_);
            if (closed_) break;
            if (socket_ == nullptr) connect(news);
            if (socket_ != nullptr) exchange(news);
            if (socket_ != nullptr) {
                polled[1].fd = socket_->fd();
                if (socket_->queued() != 0) polled[1].events |= POLLOUT;
            }
            limit = wait_limit();
        } catch (std::exception const& error) {
            // No memory, most likely; what was said in part is of no use.
            std::lock_guard const lock(lock_);
            lose_quietly(Error(ErrorCode::Internal, error.what()));
            limit = static_cast<int>(kLongestPause.count());
        }
        changed_.notify_all();
        tell(news);
        report_use();
        poll(polled, 2, limit);
        if ((polled[0].revents & POLLIN) != 0) waker_.clear();
    }
    std::lock_guard const lock(lock_);
    socket_.reset();
    joined_ = false;
}

int ClusterClient::Impl::wait_limit() const {
    auto const until = [](Clock::time_point time) {
        auto const left = std::chrono::ceil<milliseconds>(time - Clock::now());
        return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    };
    if (retry_) return until(*retry_);
    return listener_ != nullptr && !channels_.empty() ? until(next_report_) : -1;
}

// What this application does with its channels, for the cluster's status.
void ClusterClient::Impl::report_use() noexcept {
    if (listener_ == nullptr) return;
    try {
        {
            std::lock_guard const lock(lock_);
            if (!joined_ || channels_.empty() || Clock::now() < next_report_) return;
            next_report_ = Clock::now() + kReportPause;
        }
        std::vector<ClusterUse> const uses = listener_->usage();
        for (std::size_t first = 0; first < uses.size(); first += control::kMostUsesAtOnce) {
            Json figures = Json::array();
            std::size_t const last = std::min(first + control::kMostUsesAtOnce, uses.size());
            for (std::size_t at = first; at < last; ++at) {
                figures.push_back(control::json_of(uses[at]));
            }
            std::lock_guard const lock(lock_);
            if (!joined_) return;
            send({{"op", "use"}, {"id", 0u}, {"channels", std::move(figures)}});
            waker_.wake();
        }
    } catch (std::exception const& error) {
        log::warn("figures of channels could not be told: {}", error.what());
    }
}

void ClusterClient::Impl::connect(News& news) {
    if (retry_ && Clock::now() < *retry_) return;
    try {
        socket_ = std::make_unique<control::MessageSocket>(
            control::connect_to_agent(options_.agent), control::kMostAnswerBytes);
        retry_.reset();
        send(hello());
    } catch (Error const& error) {
        lose(error, news);
    }
}

// The agent is gone, or never was there; another attempt later.
void ClusterClient::Impl::lose(Error const& why, News& news) {
    bool const was_joined = joined_;
    lose_quietly(why);
    if (!was_joined) return;
    log::warn("{}: {}; what is held goes on", options_.name, why.what());
    news.emplace_back([text = std::string(why.what())](ClusterListener& listener) {
        listener.agent_changed(false, text);
    });
}

void ClusterClient::Impl::lose_quietly(Error const& why) {
    socket_.reset();
    joined_ = false;
    away_ = why;
    retry_ = Clock::now() + pause_;
    pause_ = std::min(pause_ * 2, kLongestPause);
    // Nobody waits for what was left, so it is not asked again.
    std::erase_if(calls_, [](auto const& entry) { return entry.second->left; });
}

void ClusterClient::Impl::exchange(News& news) {
    try {
        socket_->write();
        while (socket_->read()) {
            while (auto const message = socket_->next()) {
                control::Fd fd =
                    control::has(*message, "fd") ? socket_->take_descriptor() : control::Fd();
                take(*message, std::move(fd), news);
            }
        }
        socket_->write();
    } catch (Error const& error) {
        bool const gone = error.code() == ErrorCode::Closed;
        lose(Error(gone ? ErrorCode::Timeout : error.code(),
                   "the agent at " + options_.agent + (gone ? " is away: " : ": ") + error.what()),
             news);
    }
}

void ClusterClient::Impl::take(Json const& message, control::Fd fd, News& news) {
    if (control::has(message, "notice")) {
        take_notice(message, news);
    } else if (!joined_) {
        take_hello(message, news);
    } else {
        take_answer(message, std::move(fd));
    }
}

void ClusterClient::Impl::take_hello(Json const& message, News& news) {
    if (control::has(message, "error")) throw control::error_in(message["error"]);
    server_ = control::text_in(message, "server");
    devices_.clear();
    if (control::has(message, "devices")) {
        for (Json const& device : message["devices"]) {
            devices_.push_back({control::number32_in(device, "vertex"),
                                control::text_in(device, "name"), control::flag_in(device, "gpu")});
        }
    }
    joined_ = true;
    bool const again = away_.has_value();
    away_.reset();
    pause_ = kFirstPause;
    // Calls that the last agent has not answered: a request again is the same request.
    for (auto const& [id, call] : calls_) send(*call);
    if (!again) return;
    put_parts_again();
    log::info("{}: reached the agent at {} again", options_.name, options_.agent);
    news.emplace_back([](ClusterListener& listener) { listener.agent_changed(true, ""); });
}

void ClusterClient::Impl::take_answer(Json const& message, control::Fd fd) {
    auto const found = calls_.find(control::number_in(message, "id", UINT64_MAX));
    if (found == calls_.end()) return;
    auto const call = found->second;
    calls_.erase(found);
    call->brought = std::move(fd);
    if (control::has(message, "error") && call->posted) {
        log::debug("{}: {}", call->request["op"].get<std::string>(),
                   control::error_in(message["error"]).what());
    }
    bool const no_more = call->request["op"] == "delete_channel" &&
                         control::has(message, "error") &&
                         control::error_in(message["error"]).code() == ErrorCode::NotFound;
    if (no_more) note_made(call->request, message);  // it ended otherwise
    if (!control::has(message, "error")) {
        bool const makes =
            call->request["op"] == "create_endpoint" || call->request["op"] == "create_channel";
        if (call->left && makes) {
            undo(call->request, message);
        } else {
            note_made(call->request, message);
        }
        bool const puts = call->request["op"] == "put_part" && !call->posted && !call->left;
        if (puts) parts_[call->request["channel"].get<std::uint32_t>()] = std::move(call->brings);
    }
    if (call->request["op"] == "share_board" && !call->posted && call->brought) {
        board_ = control::duplicate(call->brought.get());
    }
    call->answer = message;
}

void ClusterClient::Impl::tell(News& news) noexcept {
    if (listener_ == nullptr) return;
    for (auto const& item : news) {
        try {
            item(*listener_);
        } catch (std::exception const& error) {
            log::warn("a ClusterListener threw: {}", error.what());
        }
    }
}

}  // namespace mgi
