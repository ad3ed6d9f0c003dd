#include "control/controller/state_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <mgi/error.hpp>

#include "core/private_files.hpp"
#include "core/text.hpp"

namespace mgi::control {
namespace {

constexpr std::string_view kMagic = "mgi controller state 1";
constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;
constexpr std::size_t kLargest = 4096;

[[noreturn]] void refuse(std::filesystem::path const& path, std::string const& what) {
    throw Error(ErrorCode::Refused, fmt::format("state file {}: {}", path.string(), what));
}

[[noreturn]] void refuse_errno(std::filesystem::path const& path, char const* what) {
    refuse(path, fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

/// A descriptor that is closed whatever happens.
class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) close(fd_);
    }
    Descriptor(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor const&) = delete;
    [[nodiscard]] int get() const { return fd_; }

private:
    int const fd_;
};

}  // namespace

StateFile::StateFile(std::filesystem::path path) : path_(std::move(path)) {
    if (path_.empty()) throw Error(ErrorCode::InvalidArgument, "state file: no name was given");
    lock();
    try {
        read();
        ++epoch_;
        write();
    } catch (...) {
        close(lock_);
        throw;
    }
}

StateFile::~StateFile() {
    close(lock_);
}

void StateFile::lock() {
    std::filesystem::path const file = path_.string() + ".lock";
    check_folder(path_.parent_path().string(), "give --state a file in a folder of this user's");
    lock_ = open_own_file(file.string(), O_RDWR | O_CREAT);
    if (lock_ < 0) refuse_errno(file, "cannot be opened; give --state a file in a folder of yours");
    if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
    int const why = errno;
    close(lock_);
    errno = why;
    if (why == EWOULDBLOCK) {
        refuse(path_, "another controller uses it; stop that one, or give this one its own file");
    }
    refuse_errno(file, "cannot be locked");
}

void StateFile::read() {
    Descriptor const file(open_own_file(path_.string(), O_RDONLY));
    if (file.get() < 0) {
        if (errno == ENOENT) return;
        refuse_errno(path_, "cannot be opened as a file of this user's");
    }
    std::string text(kLargest + 1, '\0');
    std::size_t have = 0;
    for (ssize_t got = 1; got > 0 && have < text.size(); have += std::size_t(got)) {
        got = ::read(file.get(), text.data() + have, text.size() - have);
        if (got < 0) refuse_errno(path_, "cannot be read");
    }
    text.resize(have);
    auto const damaged = [this](int line, std::string_view expected) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("state file {}, line {}: {} was expected. It is damaged or no "
                                "controller's: restore it from a copy. A new one would give ids "
                                "again that agents still hold",
                                path_.string(), line, expected));
    };
    std::istringstream lines(text);
    std::string line;
    if (!std::getline(lines, line) || line != kMagic) damaged(1, kMagic);
    int number = 1;
    auto const field = [&](std::string_view name, std::uint64_t least, std::uint64_t most) {
        ++number;
        std::uint64_t value = 0;
        bool good = static_cast<bool>(std::getline(lines, line)) && line.starts_with(name) &&
                    line.size() > name.size() + 1 && line[name.size()] == ' ';
        if (good) {
            char const* const end = line.data() + line.size();
            auto const [stopped, error] =
                std::from_chars(line.data() + name.size() + 1, end, value);
            good = error == std::errc{} && stopped == end && value >= least && value <= most;
        }
        if (!good) damaged(number, fmt::format("'{}' and a number of {} to {}", name, least, most));
        return value;
    };
    epoch_ = field("epoch", 1, UINT64_MAX - 1);
    for (std::size_t i = 0; i < kIdKinds; ++i) {
        next_[i] = field(to_string(static_cast<IdKind>(i)), 1, kEnd);
    }
    if (lines.eof()) damaged(number + 1, "'check' and a checksum");
    auto const end = static_cast<std::size_t>(lines.tellg());
    std::string const expected =
        fmt::format("check {:016x}\n", text_hash(std::string_view(text).substr(0, end)));
    if (text.substr(end) != expected) damaged(number + 1, expected.substr(0, expected.size() - 1));
}

void StateFile::write() const {
    std::string text = fmt::format("{}\nepoch {}\n", kMagic, epoch_);
    for (std::size_t i = 0; i < kIdKinds; ++i) {
        text += fmt::format("{} {}\n", to_string(static_cast<IdKind>(i)), next_[i]);
    }
    text += fmt::format("check {:016x}\n", text_hash(text));

    std::string const fresh = path_.string() + ".new";
    unlink(fresh.c_str());  // of one that was killed
    {
        Descriptor const file(open_own_file(fresh, O_WRONLY | O_CREAT | O_EXCL));
        if (file.get() < 0) refuse_errno(fresh, "cannot be written");
        for (std::size_t at = 0; at < text.size();) {
            ssize_t const wrote = ::write(file.get(), text.data() + at, text.size() - at);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote <= 0) refuse_errno(fresh, "cannot be written");
            at += static_cast<std::size_t>(wrote);
        }
        if (fsync(file.get()) != 0) refuse_errno(fresh, "cannot be flushed to the disk");
    }
    if (rename(fresh.c_str(), path_.c_str()) != 0) refuse_errno(path_, "cannot be replaced");
    // The new name, too, must be on the disk.
    std::filesystem::path const folder =
        path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
    Descriptor const directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0 || fsync(directory.get()) != 0) {
        refuse_errno(folder, "cannot be flushed to the disk");
    }
}

IdBlock StateFile::reserve(IdKind kind, std::uint32_t count) {
    std::uint64_t& next = next_.at(static_cast<std::size_t>(kind));
    if (count > kEnd - next) {
        throw Error(ErrorCode::OutOfMemory,
                    fmt::format("state file {}: {} ids are used up; start the cluster anew with a "
                                "new file",
                                path_.string(), to_string(kind)));
    }
    IdBlock const block{static_cast<std::uint32_t>(next), count};
    next += count;
    try {
        write();
    } catch (...) {
        next -= count;
        throw;
    }
    return block;
}

}  // namespace mgi::control
