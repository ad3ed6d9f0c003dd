#include "runtime/nic_owners.hpp"

#include <algorithm>
#include <string_view>

#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi {

namespace {

std::uint32_t device_named(std::string_view name, std::string const& word,
                           std::vector<Device> const& devices) {
    std::string known;
    for (Device const& device : devices) {
        if (device.name == name) return device.index;
        known += (known.empty() ? "" : ", ") + device.name;
    }
    throw Error(
        ErrorCode::InvalidArgument,
        "'" + word +
            "' of MGI_ADDRESSES or RuntimeOptions::addresses: this process has no device '" +
            std::string(name) + "', it has " + known +
            "; a NIC of another process' devices is 'NIC@'");
}

// Those with a core on the NIC's node; all, where it has none.
bool is_near(Device const& device, int node, std::vector<topology::NumaNode> const& nodes) {
    auto const at = std::find_if(nodes.begin(), nodes.end(), [node](topology::NumaNode const& one) {
        return one.number == node;
    });
    if (at == nodes.end()) return true;
    if (device.cores.empty()) return device.numa_node < 0 || device.numa_node == node;
    return std::any_of(device.cores.begin(), device.cores.end(), [&](int core) {
        return std::binary_search(at->cores.begin(), at->cores.end(), core);
    });
}

}  // namespace

std::vector<NicWish> nic_wishes(std::vector<std::string> const& words,
                                std::vector<Device> const& devices) {
    std::vector<NicWish> wishes;
    for (std::string const& word : words) {
        std::size_t const at = word.find('@');
        NicWish wish{word.substr(0, at), std::nullopt};
        if (at != std::string::npos) {
            wish.owners.emplace();
            std::string_view left = std::string_view(word).substr(at + 1);
            while (!left.empty()) {
                wish.owners->push_back(device_named(take_word(left, '+'), word, devices));
            }
        }
        wishes.push_back(std::move(wish));
    }
    return wishes;
}

std::vector<std::uint64_t> own_nics(std::vector<NicWish> const& wishes,
                                    std::vector<std::string> const& nics,
                                    std::vector<Device> const& devices,
                                    std::vector<topology::NumaNode> const& nodes,
                                    std::filesystem::path const& directory) {
    std::vector<std::uint64_t> own(devices.size());
    for (std::size_t nic = 0; nic < wishes.size(); ++nic) {
        auto const& owners = wishes[nic].owners;
        int const node = owners ? -1 : topology::nic_numa_node(nics[nic], directory);
        for (Device const& device : devices) {
            bool const is_its =
                owners ? std::find(owners->begin(), owners->end(), device.index) != owners->end()
                       : is_near(device, node, nodes);
            if (is_its) own[device.index] |= std::uint64_t{1} << nic;
        }
    }
    return own;
}

}  // namespace mgi
