// Memory of other processes' GPUs that was imported for channels, kept for the next ones: importing takes milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/memory.hpp"
#include "runtime/gpu_handover.hpp"

namespace mgi {

// Of a runtime. It keeps what no channel uses as long as the owning process has it: the connection over which that was
// handed over last is open so long. It keeps few, since each holds a connection open; what came first goes first.
// Thread-safe.
class ImportedMemories {
public:
    // The owner's memory of that number, for these GPUs: what is kept, or what `import` makes. That of number 0 is not kept.
    std::shared_ptr<gpu::ImportedMemory> take(
        std::uint64_t number, std::vector<int> const& gpus,
        std::shared_ptr<Descriptor const> connection,
        std::function<std::unique_ptr<gpu::ImportedMemory>()> const& import);
    // It is not given out again: kernels of this process may still use it.
    void forget(gpu::ImportedMemory const& memory) noexcept;
    // Lets go of what nobody uses: what its owner has no more, or all of it. While no kernel runs that waits for the host.
    void prune() noexcept;
    void trim() noexcept;

private:
    static constexpr std::size_t kMost = 64;
    struct Kept {
        std::uint64_t number = 0;
        std::vector<int> gpus;
        std::shared_ptr<Descriptor const> connection;
        std::shared_ptr<gpu::ImportedMemory> memory;
    };
    template <class Goes>
    void erase_unused(Goes const& goes) noexcept;

    std::mutex mutex_;
    std::list<Kept> kept_;
};

}  // namespace mgi
