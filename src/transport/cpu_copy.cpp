#include "transport/cpu_copy.hpp"

#include <cstring>

namespace mgi::transport {

bool CpuCopy::submit(Copy const& copy) {
    for (memory::Range const& range : copy.ranges) {
        std::memcpy(copy.to + range.offset, copy.from + range.offset, range.bytes);
    }
    complete_.push_back(copy.token);
    return true;
}

bool CpuCopy::poll(std::vector<std::uint64_t>& complete) {
    bool const any = !complete_.empty();
    complete.insert(complete.end(), complete_.begin(), complete_.end());
    complete_.clear();
    return any;
}

}  // namespace mgi::transport
