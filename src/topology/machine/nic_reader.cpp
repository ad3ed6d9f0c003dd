#include "topology/machine/nic_reader.hpp"

#include <string>
#include <utility>

#include "topology/machine/nics.hpp"
#include "topology/machine/sys_files.hpp"
#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

using std::filesystem::path;

constexpr std::uint64_t kRdmaWord = 4;  // bytes that RDMA ports' counters count by
constexpr int kInfiniband = 32;         // an interface's type, ARPHRD_INFINIBAND

std::uint64_t count_in(path const& file) {
    return number_in<std::uint64_t>(file).value_or(0);
}

/// Only a driver that does not follow its carrier leaves the state unknown.
bool is_up(path const& interface) {
    std::string const state = line_of(interface / "operstate");
    return state == "up" || (state == "unknown" && line_of(interface / "carrier") == "1");
}

/// The rate of links that are up, as long as all of them say one.
class Rate {
public:
    void add(double mbps) {
        known_ &= mbps > 0;
        mbps_ += mbps;
    }
    [[nodiscard]] double mbps() const { return known_ ? mbps_ : 0; }

private:
    double mbps_ = 0;
    bool known_ = true;
};

class Ports {
public:
    Ports(PortNames const& names, path const& sys) {
        for (std::string const& name : names.rdma_devices) {
            path const device = sys / "class/infiniband" / name / "ports";
            for (std::string const& port : names_in(device)) rdma_.push_back(device / port);
        }
        for (std::string const& name : names.interfaces) {
            interfaces_.push_back(sys / "class/net" / name);
        }
    }

    void count(NicState& state) const {
        for (path const& port : rdma_) {
            state.up |= is_active(port);
            state.sent += kRdmaWord * count_in(port / "counters/port_xmit_data");
            state.received += kRdmaWord * count_in(port / "counters/port_rcv_data");
        }
        for (path const& interface : interfaces_) {
            state.up |= is_up(interface);
            // What IP sends over InfiniBand its port counts; Ethernet's RDMA its interface does not.
            bool const counted =
                !rdma_.empty() && number_in<int>(interface / "type").value_or(0) == kInfiniband;
            if (counted) continue;
            state.sent += count_in(interface / "statistics/tx_bytes");
            state.received += count_in(interface / "statistics/rx_bytes");
        }
        if (auto const falls = falls_counted()) state.falls = state.falls.value_or(0) + *falls;
    }

    /// As read_nics has it: RDMA ports know better than interfaces.
    void rate(Rate& all) const {
        double rdma = 0;
        for (path const& port : rdma_) {
            if (!is_active(port) || is_of_others(port.parent_path().parent_path())) continue;
            rdma += known_mbps(number_in<double>(port / "rate").value_or(0) * 1000).value_or(0);
        }
        if (rdma > 0) return all.add(rdma);
        for (path const& interface : interfaces_) {
            if (!is_up(interface) || is_of_others(interface)) continue;
            all.add(known_mbps(number_in<double>(interface / "speed").value_or(0)).value_or(0));
        }
    }

private:
    [[nodiscard]] static bool is_active(path const& port) {
        return line_of(port / "state").starts_with('4');  // "4: ACTIVE"
    }

    [[nodiscard]] std::optional<std::uint64_t> falls_counted() const {
        std::optional<std::uint64_t> all;
        auto const add = [&](path const& file) {
            if (auto const one = number_in<std::uint64_t>(file)) all = all.value_or(0) + *one;
        };
        for (path const& interface : interfaces_) add(interface / "carrier_down_count");
        if (all) return all;
        for (path const& port : rdma_) add(port / "counters/link_downed");
        return all;
    }

    std::vector<path> rdma_;
    std::vector<path> interfaces_;
};

}  // namespace

NicReader::NicReader(std::vector<LocalNic> nics, path sys)
    : nics_(std::move(nics)), sys_(std::move(sys)), states_(nics_.size()) {}

std::vector<NicState> const& NicReader::read(bool rates) {
    for (std::size_t i = 0; i < nics_.size(); ++i) {
        NicState now;
        std::vector<Ports> ports;
        for (PortNames const& names : nics_[i].ports) ports.emplace_back(names, sys_);
        for (Ports const& each : ports) each.count(now);
        now.mbps = states_[i].mbps;
        if (rates || now.up != states_[i].up) {
            Rate rate;
            for (Ports const& each : ports) each.rate(rate);
            now.mbps = rate.mbps();
        }
        states_[i] = now;
    }
    return states_;
}

}  // namespace mgi::topology
