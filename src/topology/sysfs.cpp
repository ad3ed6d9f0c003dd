#include "topology/sysfs.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace mgi::topology {
namespace {

constexpr int kMostCores = 1 << 16;
constexpr std::uint64_t kMostNodes = 1 << 16;

std::optional<std::string> read_file(std::filesystem::path const& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    // Not through operator<<, which hides that there was no memory for all of it, nor through a
    // buffer's iterator, which throws where the path is a directory.
    std::string text;
    char part[4096];
    while (file.read(part, sizeof(part)) || file.gcount() > 0) {
        text.append(part, std::size_t(file.gcount()));
    }
    if (file.bad()) return std::nullopt;
    return text;
}

std::optional<std::uint64_t> number_at(std::string_view text) {
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    return value;
}

/// "Node 0 MemTotal:  16869588 kB" among other lines.
std::uint64_t node_memory(std::filesystem::path const& meminfo) {
    auto const text = read_file(meminfo);
    if (!text) return 0;
    std::size_t at = text->find("MemTotal:");
    if (at == std::string::npos) return 0;
    at = text->find_first_of("0123456789", at);
    if (at == std::string::npos) return 0;
    std::uint64_t const kib = number_at(std::string_view(*text).substr(at)).value_or(0);
    return kib <= UINT64_MAX / 1024 ? kib * 1024 : 0;
}

/// "node17" is 17.
std::optional<int> node_number(std::string_view name) {
    if (name.substr(0, 4) != "node") return std::nullopt;
    name.remove_prefix(4);
    auto const number = number_at(name);
    if (!number || *number >= kMostNodes || std::to_string(*number) != name) return std::nullopt;
    return int(*number);
}

}  // namespace

std::vector<int> parse_core_list(std::string_view text) {
    // A bit for each, since a text may name every core many times.
    std::vector<bool> named;
    while (!text.empty()) {
        std::size_t const comma = text.find(',');
        std::string_view const part = text.substr(0, comma);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
        auto const first = number_at(part);
        if (!first) continue;
        std::size_t const dash = part.find('-');
        auto const last = dash == std::string_view::npos ? first : number_at(part.substr(dash + 1));
        if (!last || *last >= kMostCores) continue;
        if (named.size() <= *last) named.resize(*last + 1);
        for (std::uint64_t core = *first; core <= *last; ++core) named[core] = true;
    }
    std::vector<int> cores;
    for (std::size_t core = 0; core < named.size(); ++core) {
        if (named[core]) cores.push_back(int(core));
    }
    return cores;
}

std::vector<NumaNode> read_numa_nodes(std::filesystem::path const& directory) {
    std::vector<NumaNode> nodes;
    // Not std::filesystem::directory_iterator, which ends the process when there is no memory
    // (libstdc++ 12, with an error_code).
    struct Close {
        void operator()(DIR* entries) const { closedir(entries); }
    };
    std::unique_ptr<DIR, Close> const entries(opendir(directory.c_str()));
    if (entries == nullptr) return nodes;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a directory stream of our own
    while (dirent const* const entry = readdir(entries.get())) {
        std::string const name = entry->d_name;
        auto const number = node_number(name);
        auto const cores = read_file(directory / name / "cpulist");
        if (!number || !cores) continue;
        nodes.push_back(
            {*number, parse_core_list(*cores), node_memory(directory / name / "meminfo")});
    }
    std::sort(nodes.begin(), nodes.end(),
              [](NumaNode const& a, NumaNode const& b) { return a.number < b.number; });
    return nodes;
}

int nic_numa_node(std::string const& nic, std::filesystem::path const& directory) {
    auto const text = read_file(directory / nic / "device" / "numa_node");
    if (!text) return -1;
    auto const node = number_at(*text);  // "-1" where the machine does not say
    return node && *node < kMostNodes ? int(*node) : -1;
}

bool nic_has_rdma(std::string const& nic, std::filesystem::path const& directory) {
    std::error_code none;
    return std::filesystem::exists(directory / nic / "device" / "infiniband", none);
}

}  // namespace mgi::topology
