#include "peers/shared.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace mgi::peers {

struct alignas(64) Ring::Slot {
    std::atomic<std::uint32_t> rows;  ///< and 1; 0: free
    std::uint32_t last;
};

std::uint64_t Ring::bytes(Segments const& segments) {
    return segments.slots * (sizeof(Slot) + std::uint64_t(segments.bytes));
}

Ring::Ring(char* memory, Segments const& segments) : memory_(memory), segments_(segments) {}

Ring::Slot& Ring::slot(std::uint64_t number) const {
    return reinterpret_cast<Slot*>(memory_)[number % segments_.slots];
}

char* Ring::segment(std::uint64_t number) const {
    return memory_ + (segments_.slots * sizeof(Slot)) +
           (number % segments_.slots * segments_.bytes);
}

char* Ring::open() {
    return slot(next_).rows.load(std::memory_order_acquire) == 0 ? segment(next_) : nullptr;
}

void Ring::publish(std::uint32_t rows, bool last) {
    slot(next_).last = last ? 1 : 0;
    slot(next_).rows.store(rows + 1, std::memory_order_release);
    ++next_;
}

std::optional<Carrier::Arrived> Ring::arrived() {
    std::uint32_t const rows = slot(next_).rows.load(std::memory_order_acquire);
    if (rows == 0) return std::nullopt;
    return Carrier::Arrived{segment(next_), rows - 1, slot(next_).last != 0};
}

void Ring::release() {
    slot(next_).rows.store(0, std::memory_order_release);
    ++next_;
}

namespace {

/// Memory of a file without a name; whoever knows the first process' number finds it.
class Shared : public Carrier {
public:
    Shared(Options const& options, Driver& driver) : options_(options) {
        Segments const segments(options);
        std::uint64_t const ring = Ring::bytes(segments);
        std::uint64_t const pairs = std::uint64_t(options.processes) * options.processes;
        size_ = sizeof(Gate) + (pairs * ring);
        std::string mine;
        if (options.rank == 0) {
            make();
            mine = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
        }
        std::string const where = driver.gather(mine).front();
        if (options.rank != 0) file_ = ::open(where.c_str(), O_RDWR | O_CLOEXEC);
        if (file_ < 0) fail("cannot be opened");
        void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (at == MAP_FAILED) fail("cannot be mapped");
        memory_ = static_cast<char*>(at);
        madvise(at, size_, MADV_HUGEPAGE);
        auto const between = [&](std::uint64_t from, std::uint64_t to) {
            return Ring(memory_ + sizeof(Gate) + (((from * options_.processes) + to) * ring),
                        segments);
        };
        for (std::uint32_t other = 0; other < options.processes; ++other) {
            out_.push_back(between(options.rank, other));
            in_.push_back(between(other, options.rank));
        }
        driver.gather("");  // all have it: the first may end from now on
    }

    ~Shared() override {
        if (memory_ != nullptr) munmap(memory_, size_);
        if (file_ >= 0) close(file_);
    }

    void barrier() override {
        auto& gate = *reinterpret_cast<Gate*>(memory_);
        std::uint64_t const mine = ++barriers_ * options_.processes;
        gate.came.fetch_add(1);
        for (std::uint32_t idle = 0; gate.came.load() < mine;) {
            device::backoff(std::min(++idle, 63u));
        }
    }

    char* open(std::uint32_t to) override { return out_[to].open(); }
    void publish(std::uint32_t to, std::uint32_t rows, bool last) override {
        out_[to].publish(rows, last);
    }
    std::optional<Arrived> arrived(std::uint32_t from) override { return in_[from].arrived(); }
    void release(std::uint32_t from) override { in_[from].release(); }
    bool all_left() override { return true; }

private:
    struct alignas(64) Gate {
        std::atomic<std::uint64_t> came;  ///< to all barriers
    };

    void make() {
        file_ = memfd_create("mgi-perf", MFD_CLOEXEC);
        if (file_ < 0) fail("cannot be made");
        // So that a full machine is an error here, and no SIGBUS later.
        errno = posix_fallocate(file_, 0, off_t(size_));
        if (errno != 0) fail("cannot be had");
    }

    [[noreturn]] void fail(char const* what) const {
        throw Error(ErrorCode::OutOfMemory, std::to_string(size_) + " bytes of shared memory " +
                                                what + ": " + std::strerror(errno));
    }

    Options const options_;
    std::uint64_t size_ = 0;
    int file_ = -1;
    char* memory_ = nullptr;
    std::uint64_t barriers_ = 0;
    std::vector<Ring> out_;
    std::vector<Ring> in_;
};

}  // namespace

std::unique_ptr<Carrier> share(Options const& options, Driver& driver) {
    return std::make_unique<Shared>(options, driver);
}

}  // namespace mgi::peers
