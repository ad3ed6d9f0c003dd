#include "topology/machine/sys_files.hpp"

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

namespace mgi::topology {

std::vector<std::string> names_in(std::filesystem::path const& folder) {
    struct Close {
        void operator()(DIR* entries) const { closedir(entries); }
    };
    std::vector<std::string> names;
    std::unique_ptr<DIR, Close> const entries(opendir(folder.c_str()));
    if (entries == nullptr) return names;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a directory stream of our own
    while (dirent const* const entry = readdir(entries.get())) {
        std::string name = entry->d_name;
        if (!name.starts_with('.')) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string line_of(std::filesystem::path const& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

}  // namespace mgi::topology
