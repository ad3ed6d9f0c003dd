// Whoever carries transfers and words to another process: a link, or a test.
#pragma once

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Thread-safe.
class Carrier {
public:
    virtual ~Carrier() = default;
    virtual void start(Transfer transfer) = 0;
    virtual void say(Word word) = 0;
};

}  // namespace mgi::mover::link
