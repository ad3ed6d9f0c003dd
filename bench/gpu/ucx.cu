#include "ucx.hpp"

#include "check.hpp"

#if __has_include(<ucp/api/ucp.h>)
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <array>
#include <chrono>
#include <cstdlib>

namespace mgi::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

/// UCX's calls.
struct Calls {
    void* library = nullptr;
    decltype(&ucp_init_version) init = nullptr;
    decltype(&ucp_cleanup) cleanup = nullptr;
    decltype(&ucp_worker_create) create_worker = nullptr;
    decltype(&ucp_worker_destroy) destroy_worker = nullptr;
    decltype(&ucp_worker_get_address) address = nullptr;
    decltype(&ucp_worker_release_address) release_address = nullptr;
    decltype(&ucp_worker_progress) progress = nullptr;
    decltype(&ucp_ep_create) create_end = nullptr;
    decltype(&ucp_tag_send_nbx) send = nullptr;
    decltype(&ucp_tag_recv_nbx) receive = nullptr;
    decltype(&ucp_request_check_status) status = nullptr;
    decltype(&ucp_request_free) free = nullptr;
    decltype(&ucs_status_string) text = nullptr;

    Calls() {
        char const* const told = std::getenv("MGI_UCX_LIBRARY");
        std::string const path = told != nullptr ? told : "libucp.so.0";
        // Its own libraries, which a package has beside it and the linker may not find.
        std::string const folder = path.substr(0, path.find_last_of('/') + 1);
        for (char const* const name : {"libucm.so.0", "libucs.so.0", "libuct.so.0"}) {
            (void)dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
        }
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        require(library != nullptr, "no UCX (libucp.so.0); MGI_UCX_LIBRARY names another file");
        find("ucp_init_version", init);
        find("ucp_cleanup", cleanup);
        find("ucp_worker_create", create_worker);
        find("ucp_worker_destroy", destroy_worker);
        find("ucp_worker_get_address", address);
        find("ucp_worker_release_address", release_address);
        find("ucp_worker_progress", progress);
        find("ucp_ep_create", create_end);
        find("ucp_tag_send_nbx", send);
        find("ucp_tag_recv_nbx", receive);
        find("ucp_request_check_status", status);
        find("ucp_request_free", free);
        find("ucs_status_string", text);
    }
    template <class Call>
    void find(char const* name, Call& call) const {
        call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
        require(call != nullptr, std::string("UCX has no ") + name);
    }
    void check(ucs_status_t result, char const* what) const {
        require(result == UCS_OK, std::string("UCX: ") + what + ": " + text(result));
    }
};

std::uint64_t tag_of(std::uint32_t from, std::uint32_t tag) {
    return std::uint64_t(from) << 32 | tag;
}

}  // namespace

struct Ucx::Impl {
    Calls calls;
    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    std::vector<ucp_ep_h> ends;  // by rank; they go with the worker
    std::vector<void*> requests;

    void keep(ucs_status_ptr_t request, char const* what) {
        if (UCS_PTR_IS_ERR(request)) calls.check(UCS_PTR_STATUS(request), what);
        if (request != nullptr) requests.push_back(request);
    }
};

Ucx::Ucx() : impl_(std::make_unique<Impl>()) {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG;
    auto const& calls = impl_->calls;
    calls.check(calls.init(UCP_API_MAJOR, UCP_API_MINOR, &parameters, nullptr, &impl_->context),
                "start");
    ucp_worker_params_t single{};
    single.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    single.thread_mode = UCS_THREAD_MODE_SINGLE;
    calls.check(calls.create_worker(impl_->context, &single, &impl_->worker), "make a worker");
}

Ucx::~Ucx() {
    if (impl_->worker != nullptr) impl_->calls.destroy_worker(impl_->worker);
    if (impl_->context != nullptr) impl_->calls.cleanup(impl_->context);
}

std::string Ucx::address() const {
    ucp_address_t* at = nullptr;
    std::size_t bytes = 0;
    impl_->calls.check(impl_->calls.address(impl_->worker, &at, &bytes), "ask for an address");
    std::string address(reinterpret_cast<char const*>(at), bytes);
    impl_->calls.release_address(impl_->worker, at);
    return address;
}

void Ucx::connect(std::vector<std::string> const& addresses) {
    for (std::string const& address : addresses) {
        ucp_ep_params_t parameters{};
        parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        parameters.address = reinterpret_cast<ucp_address_t const*>(address.data());
        auto const& calls = impl_->calls;
        calls.check(calls.create_end(impl_->worker, &parameters, &impl_->ends.emplace_back()),
                    "connect");
    }
}

void Ucx::send(std::uint32_t to, std::uint32_t from, std::uint32_t tag, void const* data,
               std::uint64_t bytes) {
    ucp_request_param_t plain{};
    impl_->keep(impl_->calls.send(impl_->ends.at(to), data, bytes, tag_of(from, tag), &plain),
                "send");
}

void Ucx::receive(std::uint32_t from, std::uint32_t tag, void* data, std::uint64_t bytes) {
    ucp_request_param_t plain{};
    impl_->keep(impl_->calls.receive(impl_->worker, data, bytes, tag_of(from, tag), ~0ull, &plain),
                "receive");
}

void Ucx::wait() {
    auto const& calls = impl_->calls;
    auto const deadline = std::chrono::steady_clock::now() + kPatience;
    for (void* const request : impl_->requests) {
        ucs_status_t status = UCS_INPROGRESS;
        for (std::uint32_t looks = 0; (status = calls.status(request)) == UCS_INPROGRESS; ++looks) {
            calls.progress(impl_->worker);
            if (looks % 4096 != 4095) continue;
            require(std::chrono::steady_clock::now() < deadline, "UCX: a message does not end");
        }
        calls.free(request);
        calls.check(status, "carry a message");
    }
    impl_->requests.clear();
}

}  // namespace mgi::bench

#else

namespace mgi::bench {

struct Ucx::Impl {};
Ucx::Ucx() {
    require(false, "built without UCX's headers (Debian's libucx-dev)");
}
Ucx::~Ucx() = default;
std::string Ucx::address() const {
    return {};
}
void Ucx::connect(std::vector<std::string> const&) {}
void Ucx::send(std::uint32_t, std::uint32_t, std::uint32_t, void const*, std::uint64_t) {}
void Ucx::receive(std::uint32_t, std::uint32_t, void*, std::uint64_t) {}
void Ucx::wait() {}

}  // namespace mgi::bench

#endif
