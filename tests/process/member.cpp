// A process that is a member of a channel: what process_test.cpp starts.
//
//     mgi_test_member ME MEMBERS BY_REFERENCE ROWS GONE_LIMIT_MS FORKS, the part at descriptor 3
//
// Prints the rows and their sum and ends with 0, or prints the channel's failure and ends with 3.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "process/exchange.hpp"

int main(int count, char** arguments) {
    using namespace mgi::test;
    if (count != 7) return 2;
    Exchange const exchange = Exchange::from_arguments(arguments + 1);
    alarm(120);  // whoever started it may be gone
    try {
        Member member(exchange);
        member.open(kPartDescriptor);
        close(kPartDescriptor);
        pid_t const child = exchange.forks ? fork() : -1;
        if (child == 0) {
            // Writes its memory as any program does, while the parent's rows move. None from the heap,
            // whose locks other threads may have held when it was copied.
            static std::array<char volatile, 100'000> memory;
            for (int i = 0; i < 300; ++i) {
                for (auto& byte : memory) byte = char(i);
                usleep(1000);
            }
            _exit(0);
        }
        Arrived const arrived = member.run();
        int status = 0;
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) return 4;
        std::printf("%llu %llu\n", static_cast<unsigned long long>(arrived.rows),
                    static_cast<unsigned long long>(arrived.sum));
        return 0;
    } catch (mgi::Error const& error) {
        std::printf("%s\n", error.what());
        return 3;
    }
}
