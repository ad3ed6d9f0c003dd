#include "core/private_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi {

namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

[[noreturn]] void fail(std::string const& what, int error) {
    throw Error(ErrorCode::NotFound, what + ": " + std::system_category().message(error));
}

}  // namespace

bool is_private_folder(std::string const& path) {
    struct stat found{};
    return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
           found.st_uid == geteuid() && (found.st_mode & kOthersWrite) == 0;
}

void make_folder(std::string const& path) {
    std::filesystem::path const folder(path);
    std::error_code failed;
    if (folder.empty() || std::filesystem::is_directory(folder, failed)) return;
    if (folder.has_relative_path() && folder.has_parent_path()) {
        make_folder(folder.parent_path().string());
    }
    if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
        fail("cannot make folder " + path, errno);
}

void check_folder(std::string const& path, std::string const& advice) {
    struct stat found{};
    std::string const folder = path.empty() ? "." : path;
    if (stat(folder.c_str(), &found) != 0) fail("folder " + folder, errno);
    if ((found.st_mode & S_ISVTX) != 0) return;
    bool const others = found.st_uid != geteuid() && found.st_uid != 0;
    if (!others && (found.st_mode & S_IWOTH) == 0) return;
    throw Error(ErrorCode::Refused, "folder " + folder +
                                        (others ? " belongs to user " + std::to_string(found.st_uid)
                                                : std::string(" can be written to by everybody")) +
                                        ", who could replace what lies in it; " + advice);
}

int open_own_file(std::string const& path, int flags) {
    int const fd = open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return fd;
    struct stat found{};
    bool const there = fstat(fd, &found) == 0;
    if (there && S_ISREG(found.st_mode) && found.st_uid == geteuid()) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int open_new_file(std::string const& path, std::string& name) {
    name = path + ".XXXXXX";
    return mkostemp(name.data(), O_CLOEXEC);
}

}  // namespace mgi
