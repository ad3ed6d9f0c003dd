// UCX's functions, from the library that the machine has.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace mgi::transport::ucx {

struct Library {
    // Throws Error(NotFound).
    static Library const& get();
    // For tests: the same, to put something else in the place of its functions while no other thread uses them.
    static Library& to_change();

    decltype(&::ucp_config_read) ucp_config_read = nullptr;
    decltype(&::ucp_config_modify) ucp_config_modify = nullptr;
    decltype(&::ucp_config_release) ucp_config_release = nullptr;
    decltype(&::ucp_init_version) ucp_init_version = nullptr;
    decltype(&::ucp_cleanup) ucp_cleanup = nullptr;
    decltype(&::ucp_context_query) ucp_context_query = nullptr;
    decltype(&::ucp_mem_map) ucp_mem_map = nullptr;
    decltype(&::ucp_mem_unmap) ucp_mem_unmap = nullptr;
    decltype(&::ucp_worker_create) ucp_worker_create = nullptr;
    decltype(&::ucp_worker_destroy) ucp_worker_destroy = nullptr;
    decltype(&::ucp_worker_query) ucp_worker_query = nullptr;
    decltype(&::ucp_worker_release_address) ucp_worker_release_address = nullptr;
    decltype(&::ucp_worker_get_efd) ucp_worker_get_efd = nullptr;
    decltype(&::ucp_worker_arm) ucp_worker_arm = nullptr;
    decltype(&::ucp_worker_progress) ucp_worker_progress = nullptr;
    decltype(&::ucp_worker_set_am_recv_handler) ucp_worker_set_am_recv_handler = nullptr;
    decltype(&::ucp_ep_create) ucp_ep_create = nullptr;
    decltype(&::ucp_ep_flush_nbx) ucp_ep_flush_nbx = nullptr;
    decltype(&::ucp_ep_close_nbx) ucp_ep_close_nbx = nullptr;
    decltype(&::ucp_am_send_nbx) ucp_am_send_nbx = nullptr;
    decltype(&::ucp_am_recv_data_nbx) ucp_am_recv_data_nbx = nullptr;
    decltype(&::ucp_am_data_release) ucp_am_data_release = nullptr;
    decltype(&::ucp_request_check_status) ucp_request_check_status = nullptr;
    decltype(&::ucp_request_free) ucp_request_free = nullptr;
    decltype(&::ucs_status_string) ucs_status_string = nullptr;

    // Throws Error(Refused) "what: what UCX says" unless all is well.
    void check(ucs_status_t status, std::string const& what) const;

private:
    Library();
};

}  // namespace mgi::transport::ucx
