// Kernels are loaded before any is resident: a driver that loads one when it is first used waits for those that are.
#include <mutex>
#include <set>
#include <vector>

#include <mgi/runtime.hpp>

#include "core/log.hpp"
#include "gpu/memory.hpp"
#include "runtime/gpu_kernels.hpp"

namespace mgi {

namespace {

struct Known {
    GpuFunction of_module;
    std::set<int> loaded;  // the GPUs
};

struct AllKnown {
    std::mutex mutex;
    std::vector<Known> known;

    // Static objects of any source come here, so it is made by the first and never destroyed.
    static AllKnown& one() {
        static auto& made = *new AllKnown;
        return made;
    }
};

// All functions of a module.
void load_module(GpuFunction of_module, int gpu) {
    constexpr char const* kWhat = "load kernels";
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::LoadingMode mode = gpu::kEagerLoading;
    driver.check(driver.cuModuleGetLoadingMode(&mode), kWhat);
    if (mode == gpu::kEagerLoading) return;
    gpu::Current const here(driver, gpu);
    auto* const function = static_cast<gpu::Function>(of_module(gpu));
    gpu::Module module = nullptr;
    driver.check(driver.cuFuncGetModule(&module, function), kWhat, gpu);
    unsigned count = 0;
    driver.check(driver.cuModuleGetFunctionCount(&count, module), kWhat, gpu);
    std::vector<gpu::Function> functions(count);
    driver.check(driver.cuModuleEnumerateFunctions(functions.data(), count, module), kWhat, gpu);
    for (gpu::Function const one : functions) driver.check(driver.cuFuncLoad(one), kWhat, gpu);
}

}  // namespace

void warn_of_unknown_kernels() noexcept {
    static std::once_flag once;
    try {
        gpu::LoadingMode mode = gpu::kEagerLoading;
        gpu::Driver const& driver = gpu::Driver::get();
        if (driver.cuModuleGetLoadingMode(&mode) != gpu::kSuccess || mode == gpu::kEagerLoading) {
            return;
        }
        std::call_once(once, [] {
            log::warn(
                "kernels of other sources than those that include <mgi/runtime.hpp> are loaded "
                "when "
                "they are first used, which waits for ever beside a kernel that waits for them: "
                "use "
                "each once before, or set CUDA_MODULE_LOADING=EAGER before the process starts");
        });
    } catch (std::exception const&) {
        // Nobody to warn of a GPU that is not there.
    }
}

bool know_gpu_kernels(GpuFunction of_module) noexcept {
    try {
        AllKnown& all = AllKnown::one();
        std::lock_guard const lock(all.mutex);
        all.known.push_back({of_module, {}});
        return true;
    } catch (std::exception const&) {
        return false;  // then they are loaded when they are used
    }
}

void forget_gpu_kernels(GpuFunction of_module) noexcept {
    AllKnown& all = AllKnown::one();
    std::lock_guard const lock(all.mutex);
    std::erase_if(all.known, [&](Known const& one) { return one.of_module == of_module; });
}

void load_gpu_kernels(int gpu) noexcept {
    AllKnown& all = AllKnown::one();
    std::lock_guard const lock(all.mutex);
    for (Known& one : all.known) {
        try {
            if (!one.loaded.insert(gpu).second) continue;
            load_module(one.of_module, gpu);
        } catch (std::exception const& error) {
            auto const* const known = dynamic_cast<Error const*>(&error);
            // Another time there may be some.
            if (known != nullptr && known->code() == ErrorCode::OutOfMemory) one.loaded.erase(gpu);
            log::warn("kernels could not be loaded before they are used: {}", error.what());
        }
    }
}

}  // namespace mgi
