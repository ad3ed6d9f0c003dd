#include "topology/readers/smi_groups.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace mgi::topology {
namespace {

/// Sets of devices that only grow together.
class Sets {
public:
    explicit Sets(std::size_t size) : parent_(size) {
        std::iota(parent_.begin(), parent_.end(), std::size_t(0));
    }
    std::size_t of(std::size_t i) {
        while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
        return i;
    }
    /// The smaller number stands for both.
    void join(std::size_t a, std::size_t b) {
        a = of(a);
        b = of(b);
        parent_[std::max(a, b)] = std::min(a, b);
    }

private:
    std::vector<std::size_t> parent_;
};

Sets joined_by(SmiMatrix const& matrix, SmiRelation most) {
    std::size_t const size = matrix.devices.size();
    Sets sets(size);
    for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            SmiRelation const relation = matrix.at(i, j).relation;
            if (relation != SmiRelation::NvLink && relation <= most) sets.join(i, j);
        }
    }
    return sets;
}

/// Each device's set, kNoGroup for one that is alone.
std::vector<std::size_t> groups_of(Sets& sets, std::size_t size) {
    std::vector<std::size_t> members(size, 0);
    for (std::size_t i = 0; i < size; ++i) ++members[sets.of(i)];
    std::vector<std::size_t> groups(size, kNoGroup);
    for (std::size_t i = 0; i < size; ++i) {
        if (members[sets.of(i)] > 1) groups[i] = sets.of(i);
    }
    return groups;
}

/// An outer switch that holds just one inner one is that inner one.
void drop_doubles(SmiGroups& groups) {
    std::size_t const size = groups.inner_of.size();
    std::vector<bool> mixed(size, false);
    std::vector<std::size_t> inner(size, kNoGroup);
    std::vector<bool> seen(size, false);
    for (std::size_t i = 0; i < size; ++i) {
        std::size_t const outer = groups.outer_of[i];
        if (outer == kNoGroup) continue;
        if (seen[outer] && inner[outer] != groups.inner_of[i]) mixed[outer] = true;
        if (groups.inner_of[i] == kNoGroup) mixed[outer] = true;
        seen[outer] = true;
        inner[outer] = groups.inner_of[i];
    }
    for (std::size_t i = 0; i < size; ++i) {
        if (groups.outer_of[i] != kNoGroup && !mixed[groups.outer_of[i]]) {
            groups.outer_of[i] = kNoGroup;
        }
    }
}

class Places {
public:
    explicit Places(SmiMatrix const& matrix)
        : matrix_(matrix), cpu_of_(matrix.devices.size(), kNoGroup) {}

    void find(SmiGroups& groups) {
        for (std::size_t i = 0; i < cpu_of_.size(); ++i) {
            SmiDevice const& device = matrix_.devices[i];
            std::string const& affinity =
                device.numa_affinity.empty() ? device.cpu_affinity : device.numa_affinity;
            if (!affinity.empty()) cpu_of_[i] = number_of(affinity);
        }
        // What is behind one switch is at one CPU; the others are at that of whatever is nearest.
        spread(SmiRelation::Pxb);
        spread(SmiRelation::Phb);
        spread(SmiRelation::Node);
        place_rest(groups.guessed);
        // Only those that have a device are CPUs: one that nothing is at would join the others.
        std::map<std::size_t, std::size_t> used;
        for (std::size_t const cpu : cpu_of_) {
            groups.cpu_of.push_back(used.try_emplace(cpu, used.size()).first->second);
        }
        groups.cpus = used.size();
    }

private:
    std::size_t number_of(std::string const& affinity) {
        return numbers_.try_emplace(affinity, numbers_.size()).first->second;
    }

    /// Devices that are this near to each other are all at the CPU of the first that has one; those
    /// behind one switch even where their own columns differ.
    void spread(SmiRelation most) {
        Sets sets = joined_by(matrix_, most);
        std::vector<std::size_t> cpu_of_set(cpu_of_.size(), kNoGroup);
        for (std::size_t i = 0; i < cpu_of_.size(); ++i) {
            std::size_t& cpu = cpu_of_set[sets.of(i)];
            if (cpu == kNoGroup) cpu = cpu_of_[i];
        }
        for (std::size_t i = 0; i < cpu_of_.size(); ++i) {
            if (cpu_of_[i] == kNoGroup || most == SmiRelation::Pxb) {
                cpu_of_[i] = cpu_of_set[sets.of(i)];
            }
        }
    }

    /// Devices near to none that has an affinity. That SYS leads to all of a table's CPUs says nothing.
    void place_rest(std::vector<std::size_t>& guessed) {
        Sets sets = joined_by(matrix_, SmiRelation::Node);
        std::size_t const told = numbers_.size();
        bool const far = told < 2 && tells_cpus_apart();
        std::vector<std::size_t> homes;  // of neighbourhoods, by the device that stands for each
        for (std::size_t i = 0; i < cpu_of_.size(); ++i) {
            if (cpu_of_[i] != kNoGroup) continue;
            guessed.push_back(i);
            if (std::find(homes.begin(), homes.end(), sets.of(i)) == homes.end()) {
                homes.push_back(sets.of(i));
            }
        }
        bool const shared_out = told > 1 && tells_cpus_apart();
        for (std::size_t const i : guessed) {
            auto const home =
                std::size_t(std::find(homes.begin(), homes.end(), sets.of(i)) - homes.begin());
            if (far) {
                cpu_of_[i] = number_of("around " + std::to_string(sets.of(i)));
            } else if (told == 0) {
                cpu_of_[i] = number_of("unknown");
            } else {
                cpu_of_[i] = shared_out ? home * told / homes.size() : 0;
            }
        }
    }

    /// Whether SYS means another CPU here: virtual machines show it between all devices, of one CPU, too.
    [[nodiscard]] bool tells_cpus_apart() const {
        bool found = false;
        for (std::size_t i = 0; i < cpu_of_.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                if (matrix_.at(i, j).relation != SmiRelation::Sys) continue;
                found = true;
                if (cpu_of_[i] != kNoGroup && cpu_of_[i] == cpu_of_[j]) return false;
            }
        }
        return found;
    }

    SmiMatrix const& matrix_;
    std::vector<std::size_t> cpu_of_;
    std::map<std::string, std::size_t> numbers_;
};

}  // namespace

SmiGroups group_devices(SmiMatrix const& matrix) {
    std::size_t const size = matrix.devices.size();
    SmiGroups groups;
    Sets inner = joined_by(matrix, SmiRelation::Pix);
    Sets outer = joined_by(matrix, SmiRelation::Pxb);
    groups.inner_of = groups_of(inner, size);
    groups.outer_of = groups_of(outer, size);
    drop_doubles(groups);
    Places(matrix).find(groups);
    return groups;
}

}  // namespace mgi::topology
