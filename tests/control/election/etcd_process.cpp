#include "etcd_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mgi::test {

std::string free_address() {
    int const probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    bool const bound = bind(probe, generic, size) == 0 && getsockname(probe, generic, &size) == 0;
    close(probe);
    if (!bound) throw std::runtime_error("no free port");
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

EtcdProcess::EtcdProcess(std::vector<std::string> tls)
    : tls_(std::move(tls)), address_(free_address()), peers_("http://" + free_address()) {
    start();
}

void EtcdProcess::start() {
    std::string const url = (tls_.empty() ? "http://" : "https://") + address_;
    std::vector<std::string> words{"etcd",
                                   "--name=test",
                                   "--data-dir=" + folder_.file("data"),
                                   "--listen-client-urls=" + url,
                                   "--advertise-client-urls=" + url,
                                   "--listen-peer-urls=" + peers_,
                                   "--log-level=error"};
    words.insert(words.end(), tls_.begin(), tls_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string const log = folder_.file("log");
    child_ = fork();
    if (child_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int const out = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    usleep(50'000);
    if (child_ < 0 || waitpid(child_, nullptr, WNOHANG) != 0) {
        throw std::runtime_error("etcd does not start; apt-get install etcd-server");
    }
}

EtcdProcess::~EtcdProcess() {
    stop();
}

void EtcdProcess::stop() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
}

void EtcdProcess::freeze() {
    kill(child_, SIGSTOP);
}
void EtcdProcess::thaw() {
    kill(child_, SIGCONT);
}

}  // namespace mgi::test
