/// \file
/// The GPU's own limit: what copies within its memory reach.
#pragma once

namespace mgi::bench {

class Context;

/// Read plus write of the fastest device-to-device copy of at least 1 GiB (if that fits), GB/s.
double measure_traffic(Context& context);

}  // namespace mgi::bench
