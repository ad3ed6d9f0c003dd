/// \file
/// UCX that says it knows CUDA memory, for tests with a FakeDriver: bytes that are called a GPU's go as the host's, which
/// they are. Everything else is UCX's own.
#pragma once

#include <cstdint>
#include <memory>

namespace mgi::test {

/// One at a time, while nobody has wires over UCX.
class FakeUcx {
public:
    FakeUcx();
    ~FakeUcx();
    FakeUcx(FakeUcx const&) = delete;
    FakeUcx& operator=(FakeUcx const&) = delete;

    /// Whether it knows CUDA memory; it does if nothing is said.
    void know_cuda(bool knows);
    /// Registers so many more memories, and then none.
    void register_at_most(int memories);

    /// Memories that are registered.
    [[nodiscard]] int registered() const;
    /// Of a GPU's memory, that were sent and landed as such.
    [[nodiscard]] std::uint64_t sent() const;
    [[nodiscard]] std::uint64_t landed() const;
    /// Pieces of a GPU's memory that UCX was given as the host's, or by another protocol than one that leaves them in
    /// their place.
    [[nodiscard]] std::uint64_t mistaken() const;

private:
    struct Saved;
    std::unique_ptr<Saved> saved_;
};

}  // namespace mgi::test
