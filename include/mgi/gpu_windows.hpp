/// \file
/// Memory of GPUs that kernels of several processes of a server write into, as MPI has windows: operators stand on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

namespace mgi {

/// What one of the processes that have some endpoints shares with the others, and they with it. All of them make the same
/// calls in the same order, and tell each other in between what these return. Used by one thread at a time, but for
/// windows, which any thread may make and give back.
class GpuWindows {
public:
    virtual ~GpuWindows() = default;

    /// What the others must know of this process first.
    virtual std::string card() = 0;
    /// Takes in all processes' cards, of which this process' is the one at `me`. Whether they share windows: all find the
    /// same.
    virtual bool meet(std::vector<std::string> const& cards, std::size_t me) = 0;

    /// A window at a GPU of this process: at least so many bytes, of any content. It is kept for the next one when its
    /// last copy dies, once all that is in the legacy default stream by then is over. Throws Error(OutOfMemory).
    virtual std::shared_ptr<void> make(int gpu, std::uint64_t bytes) = 0;
    /// Offers windows to the others; what it returns they must know. Until `close` their kernels may write into these.
    virtual std::string offer(std::vector<void*> const& windows) = 0;
    /// Another process' window, for kernels of this one.
    struct Window {
        char* at = nullptr;
        std::uint64_t bytes = 0;
    };
    struct Opened {
        std::vector<std::vector<Window>>
            windows;          ///< by process, in the order in which it offers them
        bool anew = false;    ///< some were not open before in some process: all find the same
        std::string failure;  ///< why this process cannot open one; empty: it can
    };
    /// Opens what all have offered, and lets go of what their processes have no more. Throws Error(Internal) where that is
    /// not to be understood.
    virtual Opened open(std::vector<std::string> const& offers) = 0;
    /// No other process writes into these any more. Windows that are given back unclosed are not kept.
    virtual void close(std::vector<void*> const& windows) = 0;
    /// Some process could not open a window: `meet` finds from now on that they share none.
    virtual void do_without() = 0;
};

/// Those of this process, for GPUs; kept with the runtime for the next call with the same endpoints. Throws Error(OutOfMemory).
std::shared_ptr<GpuWindows> gpu_windows(Runtime const& runtime,
                                        std::vector<Endpoint> const& endpoints);

/// Frees the windows that are kept on a GPU for this process' next ones; their memory is free once the other processes have let
/// go of it as well, which they do when windows are next opened. Returns the bytes. Thread-safe; not while kernels run that
/// wait for each other.
std::uint64_t trim_gpu_windows(int gpu);

}  // namespace mgi
