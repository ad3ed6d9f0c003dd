// Instead of nic.cpp, stream.cpp and library.cpp where UCX's headers are not there.
#include <mgi/error.hpp>

#include "transport/ucx/ucx.hpp"

namespace mgi::transport::ucx {

std::unique_ptr<wire::Medium> open_nic(wire::Address const& /*address*/) {
    throw Error(ErrorCode::NotFound,
                "this MGI was built without UCX: install its headers (on Debian or Ubuntu: apt-get "
                "install libucx-dev), build again, or set MGI_WIRES=tcp");
}

}  // namespace mgi::transport::ucx
