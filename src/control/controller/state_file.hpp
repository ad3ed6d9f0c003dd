/// \file
/// Epoch and ids in a file of one machine.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "control/controller/storage.hpp"

namespace mgi::control {

/// The file is small text, replaced as a whole and flushed to the disk before anything of it is used,
/// so that it is never half written. Beside it stands `FILE.lock`, held for the object's life.
class StateFile final : public Storage {
public:
    /// Opens or makes it, and begins the next epoch. Throws Error: Refused where another controller
    /// holds it or it cannot be written, InvalidArgument where it is damaged or no such file.
    explicit StateFile(std::filesystem::path path);
    ~StateFile() override;
    StateFile(StateFile const&) = delete;
    StateFile& operator=(StateFile const&) = delete;

    [[nodiscard]] std::uint64_t epoch() const override { return epoch_; }
    IdBlock reserve(IdKind kind, std::uint32_t count) override;

private:
    void lock();
    void read();
    void write() const;

    std::filesystem::path const path_;
    int lock_ = -1;
    std::uint64_t epoch_ = 0;
    /// By kind: the first id that was never reserved. 2^32 is one past the last.
    std::array<std::uint64_t, kIdKinds> next_{1, 1, 1};
};

}  // namespace mgi::control
