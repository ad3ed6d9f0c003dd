#include "support/hang_guard.hpp"

#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace mgi::test {

namespace {

std::atomic<int> stacks_printed{0};

void print_own_stack(int) {
    std::array<void*, 64> frames{};
    int const count = backtrace(frames.data(), static_cast<int>(frames.size()));
    std::array<char, 64> head{};
    int const length = std::snprintf(head.data(), head.size(), "\n-- thread %ld\n",
                                     static_cast<long>(syscall(SYS_gettid)));
    if (write(STDERR_FILENO, head.data(), static_cast<std::size_t>(length)) >= 0) {
        backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
    }
    stacks_printed.fetch_add(1);
}

bool print_with_gdb() {
    std::string const pid = std::to_string(getpid());
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t const child = fork();
    if (child < 0) return false;
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execlp("gdb", "gdb", "--batch", "-nx", "-p", pid.c_str(), "-ex",
               "set print frame-arguments scalars", "-ex", "thread apply all backtrace 12",
               static_cast<char*>(nullptr));
        _exit(127);
    }
    // gdb itself must not be what hangs.
    for (int tenth = 0; tenth < 600; ++tenth) {
        int status = 0;
        pid_t const ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0) return false;
        usleep(100'000);
    }
    kill(child, SIGKILL);
    return false;
}

void print_by_signal() {
    struct sigaction action{};
    action.sa_handler = print_own_stack;
    sigaction(SIGUSR2, &action, nullptr);
    DIR* const tasks = opendir("/proc/self/task");
    if (tasks == nullptr) return;
    while (dirent const* entry = readdir(tasks)) {
        long const thread = std::strtol(entry->d_name, nullptr, 10);
        if (thread <= 0) continue;
        int const before = stacks_printed.load();
        syscall(SYS_tgkill, static_cast<long>(getpid()), thread, static_cast<long>(SIGUSR2));
        for (int round = 0; round < 100 && stacks_printed.load() == before; ++round) usleep(5000);
    }
    closedir(tasks);
}

/// Ends the process when the test that is running does not end.
class HangGuard : public ::testing::EmptyTestEventListener {
public:
    void OnTestStart(::testing::TestInfo const& info) override {
        std::lock_guard const lock(mutex_);
        name_ = std::string(info.test_suite_name()) + "." + info.name();
        deadline_ = std::chrono::steady_clock::now() + test_limit();
        watching_ = true;
        if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
        changed_.notify_all();
    }
    void OnTestEnd(::testing::TestInfo const&) override {
        std::lock_guard const lock(mutex_);
        watching_ = false;
        changed_.notify_all();
    }
    void OnTestProgramEnd(::testing::UnitTest const&) override {
        {
            std::lock_guard const lock(mutex_);
            stop_ = true;
            changed_.notify_all();
        }
        if (thread_.joinable()) thread_.join();
    }

private:
    void watch() {
        std::unique_lock lock(mutex_);
        while (!stop_) {
            if (!watching_) {
                changed_.wait(lock);
            } else if (changed_.wait_until(lock, deadline_) == std::cv_status::timeout &&
                       watching_ && std::chrono::steady_clock::now() >= deadline_) {
                std::fprintf(stderr, "\n%s hangs: no end after %lld s. All stacks:\n",
                             name_.c_str(), static_cast<long long>(test_limit().count()));
                print_all_stacks();
                std::fflush(stderr);
                std::_Exit(124);
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string name_;
    std::chrono::steady_clock::time_point deadline_;
    bool watching_ = false;
    bool stop_ = false;
    std::thread thread_;
};

// gtest owns the listener and calls it on its own thread.
[[maybe_unused]] bool const installed = [] {
    ::testing::UnitTest::GetInstance()->listeners().Append(new HangGuard);
    return true;
}();

}  // namespace

std::chrono::seconds test_limit() {
    if (char const* limit = std::getenv("MGI_TEST_LIMIT")) {
        long const seconds = std::strtol(limit, nullptr, 10);
        if (seconds > 0) return std::chrono::seconds(seconds);
    }
    return std::chrono::seconds(kSanitized ? 240 : 60);
}

void print_all_stacks() {
    if (!print_with_gdb()) print_by_signal();
}

}  // namespace mgi::test
