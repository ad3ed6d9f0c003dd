/// \file
/// Who is being served: how many at a time, and who makes room.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "control/net/protocol.hpp"

namespace mgi::control {

/// Thread-safe.
class Readers {
public:
    struct Reader {
        std::shared_ptr<net::Connection> connection;
        bool busy = false;  ///< with an answer that is not yet sent
        bool admitted = false;
    };
    using Place = std::list<Reader>::iterator;

    explicit Readers(std::size_t most) : most_(most) {}

    Place enter(std::shared_ptr<net::Connection> connection);
    void leave(Place place);
    /// Now it counts. Another one makes room if need be: who has had no request for the longest time, else
    /// whose answer has taken the longest.
    void admit(Place place);
    /// An answer begins, or has been sent.
    void set_busy(Place place, bool busy);

    /// Closes those without a request; from now on an answer is the last on its connection.
    void stop();
    [[nodiscard]] bool stopping() const;

private:
    std::size_t const most_;
    mutable std::mutex mutex_;
    std::list<Reader> readers_;  // whose state changed last stands last
    std::size_t admitted_ = 0;
    bool stopping_ = false;
};

}  // namespace mgi::control
