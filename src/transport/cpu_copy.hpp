// The transport between CPU devices of one process: memcpy.
#pragma once

#include "transport/transport.hpp"

namespace mgi::transport {

class CpuCopy final : public Transport {
public:
    bool submit(Copy const& copy) override;
    bool poll(std::vector<std::uint64_t>& complete) override;

private:
    std::vector<std::uint64_t> complete_;
};

}  // namespace mgi::transport
