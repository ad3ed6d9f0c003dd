#include "transport/ucx/gpu_memories.hpp"

#include <algorithm>

#include <mgi/error.hpp>

namespace mgi::transport::ucx {

GpuMemories::~GpuMemories() {
    for (auto const& [at, one] : all_) (void)ucx_.ucp_mem_unmap(context_, one.handle);
}

std::string GpuMemories::why_not() const {
    ucp_context_attr_t attributes{};
    attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    ucs_status_t const status = ucx_.ucp_context_query(context_, &attributes);
    if (status != UCS_OK) return std::string("UCX says: ") + ucx_.ucs_status_string(status);
    if ((attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0) return "";
    return "its UCX knows no CUDA memory (install one that is built with CUDA, and leave cuda_copy "
           "in "
           "UCX_TLS)";
}

void GpuMemories::add(wire::GpuMemory const& memory) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = const_cast<char*>(memory.data);  // UCX has one type for all that it is to map
    params.length = memory.bytes;
    params.memory_type = UCS_MEMORY_TYPE_CUDA;
    Registered made{memory.bytes, memory.gpu, nullptr};
    gpu::Current const here(memory.gpu);
    ucx_.check(ucx_.ucp_mem_map(context_, &params, &made.handle),
               "UCX cannot register " + std::to_string(memory.bytes) +
                   " bytes of cuda:" + std::to_string(memory.gpu) + "'s memory");
    all_.emplace(reinterpret_cast<std::uintptr_t>(memory.data), made);
}

void GpuMemories::remove(wire::GpuMemory const& memory) noexcept {
    auto const at = all_.find(reinterpret_cast<std::uintptr_t>(memory.data));
    if (at == all_.end()) return;
    Turn const turn(*this);
    (void)ucx_.ucp_mem_unmap(context_, at->second.handle);
    all_.erase(at);
}

GpuMemories::All::const_iterator GpuMemories::find(void const* at) const {
    auto const address = reinterpret_cast<std::uintptr_t>(at);
    auto const behind = all_.upper_bound(address);
    if (behind == all_.begin()) return all_.end();
    auto const found = std::prev(behind);
    return address - found->first < found->second.bytes ? found : all_.end();
}

bool GpuMemories::are_alike(std::span<iovec const> pieces) const {
    return pieces.size() == 1 || std::none_of(pieces.begin(), pieces.end(),
                                              [&](iovec const& one) { return has(one.iov_base); });
}

void GpuMemories::describe(void const* at, ucp_request_param_t& param) const {
    auto const found = find(at);
    if (found == all_.end()) return;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
    param.memory_type = UCS_MEMORY_TYPE_CUDA;
    param.memh = found->second.handle;
}

GpuMemories::Turn::Turn(GpuMemories const& memories) {
    if (memories.all_.empty()) return;
    try {
        current_.emplace(memories.all_.begin()->second.gpu);
    } catch (Error const&) {
        // The GPU is lost; UCX's calls say so themselves.
    }
}

}  // namespace mgi::transport::ucx
