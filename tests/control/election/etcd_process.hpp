/// \file
/// A real etcd of one member, for the length of a test.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "control/rpc/authority.hpp"

namespace mgi::test {

class EtcdProcess {
public:
    /// Throws when there is no etcd on this machine (apt-get install etcd-server). With `tls`, etcd's options for
    /// it, nothing is in the clear.
    explicit EtcdProcess(std::vector<std::string> tls = {});
    ~EtcdProcess();
    EtcdProcess(EtcdProcess const&) = delete;
    EtcdProcess& operator=(EtcdProcess const&) = delete;

    [[nodiscard]] std::string const& address() const { return address_; }
    /// With its data, and under its address, it may start again.
    void stop();
    void start();
    void freeze();
    void thaw();

private:
    TemporaryFolder folder_;
    std::vector<std::string> const tls_;
    std::string const address_;
    std::string const peers_;
    pid_t child_ = -1;
};

/// "127.0.0.1:port" of a port that was free a moment ago.
std::string free_address();

}  // namespace mgi::test
