/// \file
/// NVIDIA's driver, opened at run time, so that nothing links it and a machine without one is none the
/// worse. The environment variable MGI_CUDA_LIBRARY has the name or path of another library in place of
/// libcuda.so.1 (tests: a driver that is made up).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <mgi/error.hpp>

#include "core/shared_library.hpp"
#include "gpu/functions.hpp"

namespace mgi::gpu {

/// The driver's version as it counts: 12.8. Kernels need a driver as new as the CUDA that compiled them, which CUDA says itself.
inline constexpr int kOldestDriver = 12080;
inline constexpr int kNoGpu = -1;

/// What check() throws of a call that failed, with its name in words. CUDA's runtime has the same numbers.
Error error_of(Result result, std::string_view name, std::string_view what, int gpu);

/// A driver that is initialized and has at least one GPU. Lives to the end of the process, as the driver
/// itself does.
class Driver : public Functions {
public:
    /// The driver of this machine; null where there is none, and absence() says why. Opened once, by the
    /// first caller, which without a driver takes some microseconds and with one as long as cuInit()
    /// does. Thread-safe.
    static Driver const* find();
    /// "no NVIDIA driver (libcuda.so.1 not found)", "driver too old: 12.4, MGI needs 12.8", "no GPU
    /// (...)"; empty where find() finds one.
    static std::string absence();
    /// The same, but throws Error(NotFound) where there is none.
    static Driver const& get();

    /// For tests: the next find() opens the library that MGI_CUDA_LIBRARY names then. What was found
    /// before stays valid.
    static void look_again();

    [[nodiscard]] int version() const { return version_; }
    /// How many GPUs this process sees: CUDA_VISIBLE_DEVICES chooses and orders them.
    [[nodiscard]] int gpus() const { return gpus_; }
    /// Throws Error(InvalidArgument) that names the GPU, for one that this process does not see.
    void check_gpu(std::int64_t gpu) const;

    /// Throws Error unless `result` is kSuccess: "`what`: the driver's name for it (in words): what to
    /// do", with "cuda:N: " in front for what a GPU did. OutOfMemory; NotFound: that GPU, or a driver that
    /// works, is not there; GroupFailed: a kernel or the hardware failed and the GPU's context is lost,
    /// see loses_context(); Internal: everything else.
    void check(Result result, std::string_view what, int gpu = kNoGpu) const {
        if (result != kSuccess) fail(result, what, gpu);
    }
    /// After such a result every call on that GPU fails in this process, until it ends.
    static bool loses_context(Result result) noexcept;
    /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
    [[nodiscard]] std::string text_of(Result result) const;

private:
    Driver() = default;
    /// Of no use where `problem` says so.
    static std::unique_ptr<Driver> open(std::string const& name, std::string& problem);
    [[noreturn]] void fail(Result result, std::string_view what, int gpu) const;

    std::unique_ptr<SharedLibrary const> library_;
    int version_ = 0;
    int gpus_ = 0;

    friend class Finder;
};

/// "12.8" of 12080.
std::string version_text(int version);

}  // namespace mgi::gpu
