#include "support/fake_ucx.hpp"

#if MGI_TEST_UCX

#include <atomic>

#include "gpu/driver.hpp"
#include "transport/ucx/library.hpp"

namespace mgi::test {

namespace {

using transport::ucx::Library;

struct Fake {
    std::atomic<bool> knows{true};
    std::atomic<int> left{1 << 20};
    std::atomic<int> registered{0};
    std::atomic<std::uint64_t> sent{0};
    std::atomic<std::uint64_t> landed{0};
    std::atomic<std::uint64_t> mistaken{0};
};
Fake* fake = nullptr;           // while there is one
Library const* real = nullptr;  // UCX's own functions

bool is_gpus(void const* at) {
    auto const* const driver = gpu::Driver::find();
    unsigned type = gpu::kMemoryOfHost;
    if (driver == nullptr) return false;
    (void)driver->cuPointerGetAttribute(&type, gpu::kPointerMemoryType,
                                        reinterpret_cast<gpu::Address>(at));
    return type == gpu::kMemoryOfDevice;
}

bool is_called_gpus(ucp_request_param_t const& param) {
    constexpr unsigned kBoth = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
    return (param.op_attr_mask & kBoth) == kBoth && param.memory_type == UCS_MEMORY_TYPE_CUDA &&
           param.memh != nullptr;
}

// As the host's memory.
ucp_request_param_t plain(ucp_request_param_t param) {
    param.op_attr_mask &= ~std::uint32_t(UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH);
    return param;
}

ucs_status_t query(ucp_context_h context, ucp_context_attr_t* attributes) {
    ucs_status_t const status = real->ucp_context_query(context, attributes);
    if (fake->knows) attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    return status;
}

ucs_status_t map(ucp_context_h context, ucp_mem_map_params_t const* params, ucp_mem_h* made) {
    if (params->memory_type != UCS_MEMORY_TYPE_CUDA || !is_gpus(params->address)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (fake->left-- <= 0) return UCS_ERR_IO_ERROR;
    ucp_mem_map_params_t as_host = *params;
    as_host.memory_type = UCS_MEMORY_TYPE_HOST;
    ucs_status_t const status = real->ucp_mem_map(context, &as_host, made);
    if (status == UCS_OK) ++fake->registered;
    return status;
}

ucs_status_t unmap(ucp_context_h context, ucp_mem_h memory) {
    --fake->registered;
    return real->ucp_mem_unmap(context, memory);
}

ucs_status_ptr_t send(ucp_ep_h endpoint, unsigned id, void const* header, std::size_t header_bytes,
                      void const* data, std::size_t count, ucp_request_param_t const* param) {
    bool const stays = (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) != 0 &&
                       (param->flags & UCP_AM_SEND_FLAG_RNDV) != 0;
    if (is_gpus(data)) ++(is_called_gpus(*param) && stays ? fake->sent : fake->mistaken);
    ucp_request_param_t const as_host = plain(*param);
    return real->ucp_am_send_nbx(endpoint, id, header, header_bytes, data, count, &as_host);
}

ucs_status_ptr_t land(ucp_worker_h worker, void* what, void* buffer, std::size_t count,
                      ucp_request_param_t const* param) {
    if (param->datatype == UCP_DATATYPE_IOV) {
        auto const* const pieces = static_cast<ucp_dt_iov_t const*>(buffer);
        for (std::size_t i = 0; i < count; ++i) fake->mistaken += is_gpus(pieces[i].buffer) ? 1 : 0;
    } else if (is_gpus(buffer)) {
        ++(is_called_gpus(*param) ? fake->landed : fake->mistaken);
    }
    ucp_request_param_t const as_host = plain(*param);
    return real->ucp_am_recv_data_nbx(worker, what, buffer, count, &as_host);
}

}  // namespace

struct FakeUcx::Saved {
    Library const library = Library::get();
    Fake fake;
};

FakeUcx::FakeUcx() : saved_(std::make_unique<Saved>()) {
    fake = &saved_->fake;
    real = &saved_->library;
    Library& ucx = Library::to_change();
    ucx.ucp_context_query = &query;
    ucx.ucp_mem_map = &map;
    ucx.ucp_mem_unmap = &unmap;
    ucx.ucp_am_send_nbx = &send;
    ucx.ucp_am_recv_data_nbx = &land;
}

FakeUcx::~FakeUcx() {
    Library::to_change() = saved_->library;
}

void FakeUcx::know_cuda(bool knows) {
    saved_->fake.knows = knows;
}
void FakeUcx::register_at_most(int memories) {
    saved_->fake.left = memories;
}
int FakeUcx::registered() const {
    return saved_->fake.registered;
}
std::uint64_t FakeUcx::sent() const {
    return saved_->fake.sent;
}
std::uint64_t FakeUcx::landed() const {
    return saved_->fake.landed;
}
std::uint64_t FakeUcx::mistaken() const {
    return saved_->fake.mistaken;
}

}  // namespace mgi::test

#endif
