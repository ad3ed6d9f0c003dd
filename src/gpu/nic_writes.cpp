#include "gpu/nic_writes.hpp"

#include <filesystem>
#include <system_error>

#include "gpu/memory.hpp"

namespace mgi::gpu {

namespace {

// 0 where the driver does not know it.
int value_of(Attribute attribute, int gpu) {
    int value = 0;
    bool const known = Driver::get().cuDeviceGetAttribute(&value, attribute, gpu) == kSuccess;
    return known ? value : 0;
}

/// nvidia-peermem, or what came before it.
bool has_peer_module() {
    std::error_code none;
    return std::filesystem::exists("/sys/module/nvidia_peermem", none) ||
           std::filesystem::exists("/sys/kernel/mm/memory_peers/nv_mem", none);
}

bool is_ordered(int gpu) {
    return value_of(kOrdersNicWrites, gpu) >= kVisibleToOwner;
}

}  // namespace

std::string why_no_nic(int gpu) {
    std::string const name = "cuda:" + std::to_string(gpu);
    // The first says what the GPU can, the others that the machine is set up for it.
    bool const is_open = value_of(kGivesDmaBuf, gpu) != 0 || has_peer_module();
    if (value_of(kNicsReach, gpu) == 0 || !is_open) {
        return name +
               "'s driver lets no NIC reach its memory (load nvidia-peermem, or a kernel and "
               "a driver with dma-buf)";
    }
    if (!is_ordered(gpu) && (value_of(kFlushesNicWrites, gpu) & kFlushByHost) == 0) {
        return name + "'s driver cannot say when its kernels see what a NIC has written";
    }
    return "";
}

NicWrites::NicWrites(int gpu) : gpu_(gpu), needs_flush_(!is_ordered(gpu)) {}

void NicWrites::settle() const {
    if (!needs_flush_) return;
    Driver const& driver = Driver::get();
    Current const here(driver, gpu_);
    driver.check(driver.cuFlushGPUDirectRDMAWrites(kFlushCurrentContext, kVisibleToOwner),
                 "see what NICs have written", gpu_);
}

}  // namespace mgi::gpu
