/// \file
/// Runs a program and reads what it prints, with a deadline. Knows nothing of CUDA.
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mgi::bench {

/// Calls `on_line` for each full line of the program's standard output. Empty when it ended with
/// status 0, else how it ended. Past the deadline it is killed; one that cannot even be killed (it
/// may hang in a driver) is left behind.
inline std::string run_child(std::vector<std::string> const& command, double deadline_s,
                             std::function<void(std::string const&)> const& on_line) {
    using Clock = std::chrono::steady_clock;
    auto const start = Clock::now();
    auto const left_ms = [&] {
        std::chrono::duration<double, std::milli> const passed = Clock::now() - start;
        return deadline_s * 1e3 - passed.count();
    };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::string("pipe: ") + std::strerror(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (auto const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    int const refused =
        posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (refused != 0) {
        close(ends[0]);
        return "start " + command[0] + ": " + std::strerror(refused);
    }
    std::string text;
    bool late = false;
    for (;;) {
        double const left = left_ms();
        if (left <= 0) {
            late = true;
            break;
        }
        pollfd wanted{ends[0], POLLIN, 0};
        int const ready = poll(&wanted, 1, int(left) + 1);
        if (ready < 0 && errno != EINTR) break;
        if (ready <= 0) continue;
        char piece[4096];
        ssize_t const got = read(ends[0], piece, sizeof(piece));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(piece, std::size_t(got));
        for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos;) {
            on_line(text.substr(0, end));
            text.erase(0, end + 1);
        }
    }
    close(ends[0]);
    if (late) kill(child, SIGKILL);
    // It has closed its output or been killed: it ends at once, or something is wrong with it.
    int status = 0;
    auto const closed = Clock::now();
    bool killed = late;
    for (pid_t ended = 0; ended == 0;) {
        ended = waitpid(child, &status, WNOHANG);
        if (ended < 0 && errno == EINTR) ended = 0;
        if (ended < 0) return std::string("wait: ") + std::strerror(errno);
        if (ended != 0) break;
        double const waited = std::chrono::duration<double>(Clock::now() - closed).count();
        if (waited > 10 && !killed) {
            kill(child, SIGKILL);
            killed = true;
        }
        if (waited > 20) return "does not end though killed";
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    char const* const limit = late ? "killed at its deadline" : "killed: it did not end";
    if (killed) return limit;
    if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) return "exit status " + std::to_string(WEXITSTATUS(status));
    return {};
}

}  // namespace mgi::bench
