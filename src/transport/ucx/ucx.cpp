#include "transport/ucx/ucx.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include <mgi/error.hpp>

#include "transport/wire/own_addresses.hpp"
#if MGI_WITH_UCX
#include "transport/ucx/nic.hpp"
#endif

namespace mgi::transport::ucx {
#if MGI_WITH_UCX
namespace {

constexpr std::chrono::seconds kMostComing{3};
constexpr char const* kNet = "/sys/class/net";

// A context never sees a NIC that is not up when it is made; one that was switched on just now needs a second.
void wait_until_up(std::string const& interface) {
    auto const end = std::chrono::steady_clock::now() + kMostComing;
    for (;;) {
        std::string state;
        std::ifstream(std::filesystem::path(kNet) / interface / "operstate") >> state;
        if (state == "up" || state == "unknown") return;
        if (std::chrono::steady_clock::now() >= end) {
            throw Error(ErrorCode::NotFound,
                        interface + " is " + (state.empty() ? "not there" : state) +
                            ", which UCX cannot use; switch it on, or set MGI_WIRES=tcp");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

std::unique_ptr<wire::Medium> open_nic(wire::Address const& address) {
    std::string const interface = wire::interface_of(address);
    wait_until_up(interface);
    return std::make_unique<Nic>(devices_of(interface, kNet));
}

}  // namespace

wire::OpenMedium open() {
    (void)Library::get();
    return open_nic;
}
#else
wire::OpenMedium open() {
    throw Error(ErrorCode::NotFound,
                "this MGI was built without UCX: install its headers (on Debian or Ubuntu: apt-get "
                "install libucx-dev), build again, or set MGI_WIRES=tcp");
}
#endif

std::string devices_of(std::string const& interface, std::filesystem::path const& net) {
    // Of a card with several ports the kernel counts them from 0, UCX from 1.
    int port = 0;
    std::ifstream(net / interface / "dev_port") >> port;
    std::vector<std::string> found;
    std::error_code none;
    for (auto const& entry :
         std::filesystem::directory_iterator(net / interface / "device" / "infiniband", none)) {
        found.push_back(entry.path().filename().string() + ":" + std::to_string(port + 1));
    }
    std::sort(found.begin(), found.end());
    std::string text;
    for (std::string const& device : found) text += device + ",";
    return text + interface;
}

}  // namespace mgi::transport::ucx
