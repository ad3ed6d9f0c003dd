/// \file
/// A stranger between two ends: passes connections on to an address, keeps what passes, and cuts or changes it when it
/// is told.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
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
    /// Changes a bit of what passes next, behind the first `behind` bytes of a connection's way.
    void change(std::size_t behind) { change_ = behind + 1; }
    /// Keeps what passes from now on, both ways; all of that.
    void listen() { listens_ = true; }
    [[nodiscard]] std::string heard();
    /// Passes nothing on until it is told otherwise.
    void hold(bool on) { hold_ = on; }
    [[nodiscard]] int connections() const { return connections_; }

private:
    struct Pair {
        transport::wire::Descriptor ends[2];
        std::vector<char> waiting[2];  ///< read from end e, to be written to the other
        std::size_t passed[2] = {0, 0};
    };
    void loop();
    bool pass(Pair& pair, int from);
    void look_at(Pair& pair, int from, char* data, std::size_t bytes);

    transport::wire::Address target_;
    transport::wire::Descriptor listener_;
    transport::wire::Address address_;
    std::vector<std::unique_ptr<Pair>> pairs_;
    std::atomic<bool> cut_{false};
    std::atomic<bool> hold_{false};
    std::atomic<std::size_t> change_{0};
    std::atomic<bool> listens_{false};
    std::mutex mutex_;
    std::string heard_;
    std::atomic<bool> stop_{false};
    std::atomic<int> connections_{0};
    std::thread thread_;
};

}  // namespace mgi::test
