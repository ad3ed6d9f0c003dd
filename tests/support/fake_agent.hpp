/// \file
/// An agent that answers what a test says, at a socket of its own.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mgi/error.hpp>

#include "control/local/socket.hpp"
#include "control/local/words.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::test {

using control::Json;

/// Serves one application at a time, in a thread of its own.
class FakeAgent {
public:
    /// What to say to a message, in order; an empty answer is none.
    using Answers = std::function<std::vector<Json>(Json const&)>;

    FakeAgent(std::string const& path, Answers answers)
        : answers_(std::move(answers)),
          listener_(control::listen_for_applications(path)),
          thread_([this] { run(); }) {}
    FakeAgent(FakeAgent const&) = delete;
    FakeAgent& operator=(FakeAgent const&) = delete;
    ~FakeAgent() {
        stop_ = true;
        waker_.wake();
        thread_.join();
    }

    /// Bytes as they are, to the application that is connected.
    void say_bytes(std::string const& bytes) {
        {
            std::lock_guard const lock(mutex_);
            said_ += bytes;
        }
        waker_.wake();
    }
    void say(Json const& message) { say_bytes(control::frame_of(message)); }

    /// Everything that applications said, hellos included; waits until there are so many messages.
    std::vector<Json> heard(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(30), [&] { return heard_.size() >= count; });
        return heard_;
    }

    static Json hello(Json const& message) {
        return {{"id", message["id"]},
                {"ok", true},
                {"server", "node1"},
                {"devices",
                 {{{"vertex", 0u}, {"name", "cpu0"}, {"gpu", false}},
                  {{"vertex", 1u}, {"name", "gpu0"}, {"gpu", true}}}}};
    }

private:
    void run() {
        while (!stop_) {
            pollfd polled[2] = {{listener_.socket.get(), POLLIN, 0}, {waker_.fd(), POLLIN, 0}};
            poll(polled, 2, -1);
            control::Fd fd(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK));
            if (!fd) {
                waker_.clear();
                continue;
            }
            control::MessageSocket socket(std::move(fd), 1u << 20);
            try {
                while (!stop_) serve(socket);
            } catch (Error const&) {
                // The application is gone.
            }
        }
    }

    void serve(control::MessageSocket& socket) {
        pollfd polled[2] = {{socket.fd(), POLLIN, 0}, {waker_.fd(), POLLIN, 0}};
        poll(polled, 2, -1);
        waker_.clear();
        {
            std::lock_guard const lock(mutex_);
            socket.queue(std::exchange(said_, {}));
        }
        while (socket.read()) {
            while (auto const message = socket.next()) {
                for (Json const& answer : answers_(*message)) {
                    socket.queue(control::frame_of(answer));
                }
                std::lock_guard const lock(mutex_);
                heard_.push_back(*message);
                changed_.notify_all();
            }
        }
        socket.write();
    }

    Answers answers_;
    control::Listener listener_;
    control::Waker waker_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Json> heard_;
    std::string said_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

/// Gives what is asked for.
class Giving {
public:
    std::vector<Json> operator()(Json const& message) {
        std::string const op = message["op"];
        if (op == "hello") return {FakeAgent::hello(message)};
        Json answer = {{"id", message["id"]}, {"ok", true}};
        if (op == "create_endpoint") {
            answer["endpoint"] = next_++;
            answer["vertex"] = 1u;
            answer["device"] = message.value("device", "gpu0");
        } else if (op == "create_channel") {
            ClusterPlan plan;
            plan.channel = next_channel_++;
            plan.generation = 1;
            plan.spec = control::spec_in(message);
            plan.request = message["request"];
            plan.table = "table";
            answer.update(control::json_of(plan));
        } else if (op == "status") {
            answer["status"] = "{}";
        }
        return {answer};
    }

private:
    std::uint32_t next_ = 5;
    std::uint32_t next_channel_ = 77;
};

}  // namespace mgi::test
