// UCX's functions, from the library that the machine has.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace mgi::transport::ucx {

#define MGI_UCX_FUNCTIONS(f)                                                                   \
    f(ucp_config_read) f(ucp_config_modify) f(ucp_config_release) f(ucp_init_version)          \
        f(ucp_cleanup) f(ucp_worker_create) f(ucp_worker_destroy) f(ucp_worker_query)          \
            f(ucp_worker_release_address) f(ucp_worker_get_efd) f(ucp_worker_arm)              \
                f(ucp_worker_progress) f(ucp_worker_set_am_recv_handler) f(ucp_ep_create)      \
                    f(ucp_ep_close_nbx) f(ucp_am_send_nbx) f(ucp_am_recv_data_nbx)             \
                        f(ucp_am_data_release) f(ucp_request_check_status) f(ucp_request_free) \
                            f(ucs_status_string)

struct Library {
    // Throws Error(NotFound).
    static Library const& get();

#define MGI_UCX_MEMBER(name) decltype(&::name) name = nullptr;
    MGI_UCX_FUNCTIONS(MGI_UCX_MEMBER)
#undef MGI_UCX_MEMBER

    // Throws Error(Refused) "what: what UCX says" unless all is well.
    void check(ucs_status_t status, std::string const& what) const;

private:
    Library();
};

}  // namespace mgi::transport::ucx
