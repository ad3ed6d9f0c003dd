// libFuzzer's entry: compiled once for each target, whose name is MGI_FUZZ_TARGET.
#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    mgi::fuzz::MGI_FUZZ_TARGET(mgi::fuzz::Input(data, size));
    return 0;
}
