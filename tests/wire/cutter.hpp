/// \file
/// A stranger between two ends: passes connections on to an address, and cuts them when it is told.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/wire/socket.hpp"

namespace mgi::test {

class Cutter {
public:
    /// Listens on loopback.
    explicit Cutter(transport::wire::Address const& target);
    ~Cutter();

    [[nodiscard]] transport::wire::Address const& address() const { return address_; }
    /// Resets all connections that are there.
    void cut() { cut_ = true; }
    /// Passes nothing on until it is told otherwise.
    void hold(bool on) { hold_ = on; }
    [[nodiscard]] int connections() const { return connections_; }

private:
    struct Pair {
        transport::wire::Descriptor ends[2];
        std::vector<char> waiting[2];  ///< read from end e, to be written to the other
    };
    void loop();
    static bool pass(Pair& pair, int from);

    transport::wire::Address target_;
    transport::wire::Descriptor listener_;
    transport::wire::Address address_;
    std::vector<std::unique_ptr<Pair>> pairs_;
    std::atomic<bool> cut_{false};
    std::atomic<bool> hold_{false};
    std::atomic<bool> stop_{false};
    std::atomic<int> connections_{0};
    std::thread thread_;
};

}  // namespace mgi::test
