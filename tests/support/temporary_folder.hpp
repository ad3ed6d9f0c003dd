/// \file
/// A folder that goes with the object.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace mgi::test {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "mgi-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;

    [[nodiscard]] std::string file(std::string const& name) const { return path_ + "/" + name; }
    /// Writes a file that only we may read; returns its path.
    [[nodiscard]] std::string write(std::string const& name, std::string const& content) const {
        std::string path = file(name);
        std::ofstream(path, std::ios::binary) << content;
        std::filesystem::permissions(path, std::filesystem::perms(0600));
        return path;
    }

private:
    std::string path_;
};

}  // namespace mgi::test
