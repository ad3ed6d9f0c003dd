#include "transport/ucx/library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include <mgi/error.hpp>

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

}  // namespace

Library const& Library::get() {
    static Library const library;
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
#define MGI_UCX_GET(function)                                                                  \
    function = reinterpret_cast<decltype(function)>(dlsym(handle, #function));                 \
    if (function == nullptr) {                                                                 \
        throw Error(                                                                           \
            ErrorCode::NotFound,                                                               \
            std::string("libucp.so.0 has no " #function ": it is older than 1.12") + kRemedy); \
    }
    MGI_UCX_FUNCTIONS(MGI_UCX_GET)
#undef MGI_UCX_GET
}

void Library::check(ucs_status_t status, std::string const& what) const {
    if (status == UCS_OK) return;
    throw Error(ErrorCode::Refused, what + ": " + ucs_status_string(status) +
                                        "; look at UCX's settings (UCX_...), or set MGI_WIRES=tcp");
}

}  // namespace mgi::transport::ucx
