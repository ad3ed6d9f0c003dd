/// \file
/// A process with one of several GPUs, which process_exchange.cu starts.
#pragma once

#include <string>
#include <vector>

namespace mgi::bench {

/// Exchanges with the others and writes what its runs took; `words` are those that it was started with. Its exit status.
int run_member(std::vector<std::string> const& words);

}  // namespace mgi::bench
