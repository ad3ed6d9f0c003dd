// What a mover's thread does for a channel, a step at a time.
#pragma once

namespace mgi::mover {

// Used by one thread at a time.
class Work {
public:
    Work() = default;
    virtual ~Work() = default;
    Work(Work const&) = delete;
    Work& operator=(Work const&) = delete;

    // True if anything moved. Never blocks.
    virtual bool step() = 0;
    // There is nothing to do any more.
    [[nodiscard]] virtual bool done() const = 0;
};

}  // namespace mgi::mover
