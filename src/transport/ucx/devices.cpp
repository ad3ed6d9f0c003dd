#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "transport/ucx/ucx.hpp"

namespace mgi::transport::ucx {

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
