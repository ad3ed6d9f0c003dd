/// \file
/// A process of another user, for tests that root runs.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace mgi::test {

inline constexpr uid_t kNobody = 65534;

/// What is answered at an address to another user's words, until nothing comes for half a second.
inline std::string answer_to_nobody(sockaddr const* address, socklen_t size,
                                    std::string const& words) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    pid_t const child = fork();
    if (child == 0) {
        // Only what a child of many threads may do: system calls.
        if (setuid(kNobody) != 0) _exit(1);
        int const fd = socket(address->sa_family, SOCK_STREAM, 0);
        if (connect(fd, address, size) != 0 ||
            write(fd, words.data(), words.size()) != ssize_t(words.size())) {
            _exit(1);
        }
        char buffer[4096];
        pollfd polled{fd, POLLIN, 0};
        for (int patience = 10'000; poll(&polled, 1, patience) > 0; patience = 500) {
            ssize_t const got = read(fd, buffer, sizeof buffer);
            if (got <= 0 || write(ends[1], buffer, std::size_t(got)) != got) break;
        }
        _exit(0);
    }
    close(ends[1]);
    std::string all;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
        all.append(buffer, std::size_t(got));
    }
    close(ends[0]);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return all;
}

}  // namespace mgi::test
