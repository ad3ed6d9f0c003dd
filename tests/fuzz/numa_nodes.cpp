#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "topology/discovery.hpp"

namespace mgi::fuzz {
namespace {

namespace fs = std::filesystem;

/// A directory of this process, made of "name|cpulist|meminfo" lines and removed at the end. A part
/// that is "/" becomes a directory, one that is missing no file.
class Nodes {
public:
    explicit Nodes(Input& input) {
        fs::remove_all(root_);
        fs::create_directories(root_);
        for (int entries = 0; entries < 8 && !input.empty(); ++entries) {
            std::string_view line = input.until('\n');
            std::string const name(part(line));
            if (name.empty() || name == "." || name == ".." || name.size() > 100 ||
                name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
                continue;
            }
            std::error_code error;
            if (!fs::create_directory(root_ / name, error)) continue;
            fill(root_ / name / "cpulist", line);
            fill(root_ / name / "meminfo", line);
        }
    }
    ~Nodes() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    Nodes(Nodes const&) = delete;
    Nodes& operator=(Nodes const&) = delete;

    [[nodiscard]] fs::path const& root() const { return root_; }

private:
    static std::string_view part(std::string_view& line) {
        std::size_t const bar = line.find('|');
        std::string_view const front = line.substr(0, bar);
        line.remove_prefix(bar == std::string_view::npos ? line.size() : bar + 1);
        return front;
    }
    static void fill(fs::path const& path, std::string_view& line) {
        if (line.empty()) return;
        std::string_view const text = part(line);
        if (text == "/") {
            fs::create_directory(path);
        } else {
            std::ofstream(path) << text;
        }
    }

    fs::path const root_ =
        fs::temp_directory_path() / ("mgi-fuzz-nodes-" + std::to_string(getpid()));
};

void check_devices(std::vector<Device> const& devices, std::vector<int> const& allowed,
                   std::uint64_t memory) {
    require(!devices.empty(), "there is a device wherever there is a core");
    for (std::size_t i = 0; i < devices.size(); ++i) {
        Device const& device = devices[i];
        require(device.index == i, "devices are numbered from 0 on");
        require(!device.cores.empty(), "a device has a core");
        require(
            std::includes(allowed.begin(), allowed.end(), device.cores.begin(), device.cores.end()),
            "a device has allowed cores only");
        require(device.memory_bytes <= memory, "a device has no more memory than the machine");
    }
}

}  // namespace

void numa_nodes(Input input) {
    std::uint32_t const wanted = input.below(8);
    auto const most = int(1 + input.below(8));
    Nodes const directory(input);
    auto const nodes = topology::read_numa_nodes(directory.root());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        require(nodes[i].number >= 0, "a node's number is not negative");
        require(i == 0 || nodes[i - 1].number < nodes[i].number,
                "each node is there once, in order");
    }
    std::vector<int> allowed;
    for (int core = 0; core < most; ++core) allowed.push_back(core);
    constexpr std::uint64_t kMemory = std::uint64_t(1) << 34;
    auto const devices = topology::divide_cores(wanted, allowed, nodes, kMemory);
    require(wanted == 0 || devices.size() == wanted, "as many devices as were asked for");
    check_devices(devices, allowed, kMemory);
}

}  // namespace mgi::fuzz
