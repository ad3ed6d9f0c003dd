#include "transport/ucx/library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include <mgi/error.hpp>

#include "core/process_limits.hpp"

namespace mgi::transport::ucx {
namespace {

constexpr char const* kRemedy =
    "; on Debian or Ubuntu: apt-get install libucx0, or set MGI_WIRES=tcp";

// What UCX reads as it is opened, where the user has said nothing. Its own handling of signals would print
// and stop a process that something else means to end; what goes wrong comes back as a status, too.
void say_how() {
    (void)setenv("UCX_ERROR_SIGNALS", "", 0);
    (void)setenv("UCX_HANDLE_ERRORS", "none", 0);
    (void)setenv("UCX_LOG_LEVEL", "fatal", 0);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    // Its hooks in mmap and munmap would call each other and the sanitizer's.
    (void)setenv("UCX_MEM_EVENTS", "n", 0);
#endif
}

template <class Function>
void load(void* library, char const* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function != nullptr) return;
    throw Error(ErrorCode::NotFound, std::string("libucp.so.0 has no ") + name +
                                         ": it is older than UCX 1.12" + kRemedy);
}

}  // namespace

Library const& Library::get() {
    return to_change();
}

Library& Library::to_change() {
    static Library library;
    return library;
}

Library::Library() {
    say_how();
    // Never closed: other libraries of the process may use it as well.
    void* const handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        throw Error(ErrorCode::NotFound,
                    std::string("no libucp.so.0, for wires over UCX") + kRemedy);
    }
    load(handle, "ucp_config_read", ucp_config_read);
    load(handle, "ucp_config_modify", ucp_config_modify);
    load(handle, "ucp_config_release", ucp_config_release);
    load(handle, "ucp_init_version", ucp_init_version);
    load(handle, "ucp_cleanup", ucp_cleanup);
    load(handle, "ucp_context_query", ucp_context_query);
    load(handle, "ucp_mem_map", ucp_mem_map);
    load(handle, "ucp_mem_unmap", ucp_mem_unmap);
    load(handle, "ucp_worker_create", ucp_worker_create);
    load(handle, "ucp_worker_destroy", ucp_worker_destroy);
    load(handle, "ucp_worker_query", ucp_worker_query);
    load(handle, "ucp_worker_release_address", ucp_worker_release_address);
    load(handle, "ucp_worker_get_efd", ucp_worker_get_efd);
    load(handle, "ucp_worker_arm", ucp_worker_arm);
    load(handle, "ucp_worker_progress", ucp_worker_progress);
    load(handle, "ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler);
    load(handle, "ucp_ep_create", ucp_ep_create);
    load(handle, "ucp_ep_flush_nbx", ucp_ep_flush_nbx);
    load(handle, "ucp_ep_close_nbx", ucp_ep_close_nbx);
    load(handle, "ucp_am_send_nbx", ucp_am_send_nbx);
    load(handle, "ucp_am_recv_data_nbx", ucp_am_recv_data_nbx);
    load(handle, "ucp_am_data_release", ucp_am_data_release);
    load(handle, "ucp_request_check_status", ucp_request_check_status);
    load(handle, "ucp_request_free", ucp_request_free);
    load(handle, "ucs_status_string", ucs_status_string);
}

void Library::check(ucs_status_t status, std::string const& what) const {
    if (status == UCS_OK) return;
    std::string text = what + ": " + ucs_status_string(status) +
                       "; look at UCX's settings (UCX_...), or set MGI_WIRES=tcp";
    std::string const limit = status == UCS_ERR_NO_MEMORY ? locked_memory_text() : "";
    if (!limit.empty()) text += "; " + limit;
    throw Error(ErrorCode::Refused, text);
}

}  // namespace mgi::transport::ucx
