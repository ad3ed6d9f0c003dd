#include "transport/ucx/nic.hpp"

#include <cstring>
#include <new>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "transport/ucx/stream.hpp"
#include "transport/wire/handshake.hpp"

namespace mgi::transport::ucx {
namespace {

constexpr unsigned kMessage = 0;   // the only kind of active message
constexpr int kMostProgress = 64;  // of one call, before others have their turn
constexpr std::size_t kMostAddress = wire::Handshake::kMostCard - sizeof(MessageHeader::token);

}  // namespace

Nic::Nic(std::string devices) : ucx_(Library::get()), devices_(std::move(devices)) {
    std::string const what = "UCX makes no context for " + devices_;
    ucp_config_t* config = nullptr;
    ucx_.check(ucx_.ucp_config_read(nullptr, nullptr, &config), what);
    ucs_status_t status = ucx_.ucp_config_modify(config, "NET_DEVICES", devices_.c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (status == UCS_OK) {
        status = ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    }
    ucx_.ucp_config_release(config);
    ucx_.check(status, what);
    try {
        make_worker();
    } catch (...) {
        ucx_.ucp_cleanup(context_);
        throw;
    }
    log::info("UCX moves bytes by {}", devices_);
}

Nic::~Nic() {
    end_worker();
    gpus_.reset();
    ucx_.ucp_cleanup(context_);
}

// Whole, or none at all.
void Nic::make_worker() {
    try {
        set_up_worker();
    } catch (...) {
        end_worker();
        throw;
    }
}

void Nic::set_up_worker() {
    std::string const what = "UCX makes no worker for " + devices_;
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    // The wires' thread, and those that drive in its place.
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucx_.check(ucx_.ucp_worker_create(context_, &params, &worker_), what);

    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessage;
    handler.cb = &Nic::arrived;
    handler.arg = this;
    ucx_.check(ucx_.ucp_worker_set_am_recv_handler(worker_, &handler), what);
    ucx_.check(ucx_.ucp_worker_get_efd(worker_, &descriptor_), what);

    // Ways within a server are left out: channels of one server share memory.
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    ucx_.check(ucx_.ucp_worker_query(worker_, &attributes), what);
    address_.assign(reinterpret_cast<char const*>(attributes.address), attributes.address_length);
    ucx_.ucp_worker_release_address(worker_, attributes.address);
    if (address_.size() > kMostAddress) {
        throw Error(ErrorCode::Refused,
                    "UCX's address of " + devices_ + " has " + std::to_string(address_.size()) +
                        " bytes, more than a handshake carries (" + std::to_string(kMostAddress) +
                        "); let UCX_TLS name fewer transports, or set MGI_WIRES=tcp");
    }
}

void Nic::end_worker() {
    if (worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
    worker_ = nullptr;
    descriptor_ = -1;
    operations_.clear();
}

void Nic::renew() {
    log::warn("what was arriving by {} cannot be called back: all wires over it are made anew",
              devices_);
    end_worker();
    for (auto const& [token, stream] : streams_) stream->abandon();
    try {
        make_worker();
    } catch (std::exception const& error) {
        log::error("{}", error.what());
    }
}

std::unique_ptr<wire::Stream> Nic::make_stream() {
    if (worker_ == nullptr) make_worker();
    return std::make_unique<UcxStream>(*this);
}

void Nic::progress() {
    GpuMemories::Turn const turn(*gpus_);
    for (int i = 0; worker_ != nullptr && i < kMostProgress; ++i) {
        if (ucx_.ucp_worker_progress(worker_) == 0) return;
    }
}

bool Nic::arm() {
    return worker_ == nullptr || ucx_.ucp_worker_arm(worker_) != UCS_ERR_BUSY;
}

Operation& Nic::begin(UcxStream& stream) {
    operations_.emplace_front();
    Operation& it = operations_.front();
    it.nic = this;
    it.stream = &stream;
    it.self = operations_.begin();
    return it;
}

void Nic::disown(UcxStream const& stream) {
    for (Operation& it : operations_) {
        if (it.stream == &stream) it.stream = nullptr;
    }
}

// What nobody waits for is dropped.
ucs_status_t Nic::arrived(void* self, void const* header, std::size_t header_bytes, void* data,
                          std::size_t bytes, ucp_am_recv_param_t const* param) {
    Nic& nic = *static_cast<Nic*>(self);
    MessageHeader what;
    if (header_bytes != sizeof(what)) return UCS_OK;
    std::memcpy(&what, header, sizeof(what));
    auto const at = nic.streams_.find(what.token);
    if (at == nic.streams_.end()) return UCS_OK;
    try {
        return at->second->take(what.sequence, data, bytes, param->recv_attr);
    } catch (std::bad_alloc const&) {
        at->second->break_off("no memory");
        return UCS_OK;
    }
}

}  // namespace mgi::transport::ucx
