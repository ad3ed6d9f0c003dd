#include "core/private_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi {

namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

}  // namespace

std::optional<std::uint32_t> user_without_number() {
    std::uint64_t first = 0;
    std::uint64_t outside = 0;
    std::uint64_t count = 0;
    std::ifstream("/proc/self/uid_map") >> first >> outside >> count;
    if (first == 0 && outside == 0 && count == 0xffffffff) return std::nullopt;
    std::uint32_t uid = 65534;
    std::ifstream("/proc/sys/kernel/overflowuid") >> uid;
    return uid;
}

bool is_private_folder(std::string const& path) {
    struct stat found{};
    return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
           found.st_uid == geteuid() && (found.st_mode & kOthersWrite) == 0;
}

void make_folder(std::string const& path, std::string const& advice) {
    std::filesystem::path const folder(path);
    std::error_code failed;
    if (folder.empty() || std::filesystem::is_directory(folder, failed)) return;
    if (folder.has_relative_path() && folder.has_parent_path()) {
        make_folder(folder.parent_path().string(), advice);
    }
    if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return;
    throw Error(ErrorCode::NotFound, "cannot make folder " + path + ": " +
                                         std::system_category().message(errno) + "; " + advice);
}

void check_folder(std::string const& path, std::string const& advice) {
    std::error_code failed;
    auto folder = std::filesystem::canonical(path.empty() ? "." : path, failed);
    if (failed) return;
    auto const nobody = user_without_number();
    for (;; folder = folder.parent_path()) {
        struct stat found{};
        if (stat(folder.c_str(), &found) != 0) return;
        bool const trusted =
            found.st_uid == geteuid() || found.st_uid == 0 || found.st_uid == nobody;
        bool const all = (found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0;
        if (!trusted || all) {
            throw Error(ErrorCode::Refused,
                        "folder " + folder.string() +
                            (trusted ? std::string(" can be written to by everybody")
                                     : " belongs to user " + std::to_string(found.st_uid)) +
                            ", who could replace what lies in it; " + advice);
        }
        if (folder == folder.root_path()) return;
    }
}

int open_own_file(std::string const& path, int flags) {
    int const fd = open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return fd;
    struct stat found{};
    bool const there = fstat(fd, &found) == 0;
    if (there && S_ISREG(found.st_mode) && found.st_uid == geteuid()) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

}  // namespace mgi
