#include "hostile/last_words.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>

// The first report ends the run: its seed is the one to replay.
extern "C" char const* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
    return "halt_on_error=1:second_deadlock_stack=1";
}
#endif

namespace mgi::hostile {

namespace {

std::string program;
// No allocation where a signal or a sanitizer calls.
std::array<char, 4096> words{};

void say() {
    if (write(STDERR_FILENO, words.data(), std::strlen(words.data())) < 0) return;
}

[[maybe_unused]] void on_signal(int signal) {
    say();
    std::signal(signal, SIG_DFL);
    raise(signal);
}

}  // namespace

void install_last_words(char const* name) {
    program = name;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(say);
#else
    // A stack of its own: a fiber's may be what has run out.
    static std::array<char, 65536> stack;
    stack_t own{};
    own.ss_sp = stack.data();
    own.ss_size = stack.size();
    sigaltstack(&own, nullptr);
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    for (int const signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
        sigaction(signal, &action, nullptr);
    }
#endif
}

std::string const& program_name() {
    return program;
}

void set_last_words(std::string const& text) {
    std::size_t const size = std::min(text.size(), words.size() - 1);
    std::memcpy(words.data(), text.data(), size);
    words[size] = '\0';
}

void say_last_words() {
    say();
}

}  // namespace mgi::hostile
