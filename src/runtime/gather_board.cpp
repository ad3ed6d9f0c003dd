#include "runtime/gather_board.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <mgi/error.hpp>

#include "core/text.hpp"

namespace mgi {

using transport::wire::Descriptor;

namespace {

using Clock = std::chrono::steady_clock;

// A process that comes later is waited for by the coordinator, which knows whether it is still there.
constexpr auto kPatience = std::chrono::milliseconds(200);
constexpr auto kSpin = std::chrono::microseconds(500);
constexpr auto kNap = std::chrono::microseconds(30);

[[noreturn]] void refuse(ErrorCode code, std::string const& what) {
    throw Error(code, transport::wire::with_error("a board for processes: " + what, errno));
}

}  // namespace

std::size_t GatherBoard::bytes_of(std::size_t processes) {
    return sizeof(Head) + 2 * processes * sizeof(Note);
}

Descriptor GatherBoard::make(std::size_t processes) {
    Descriptor memory(memfd_create("mgi-board", MFD_CLOEXEC));
    if (!memory || ftruncate(memory.get(), off_t(bytes_of(processes))) != 0) {
        refuse(ErrorCode::OutOfMemory, "no memory");
    }
    return memory;
}

// Fresh memory is zero, as all words are at first.
GatherBoard::GatherBoard(int descriptor, std::size_t processes, std::size_t me)
    : processes_(processes), me_(me) {
    struct stat status{};
    if (fstat(descriptor, &status) != 0 || std::size_t(status.st_size) != bytes_of(processes)) {
        errno = EINVAL;
        refuse(ErrorCode::InvalidArgument, "of another size");
    }
    void* const at =
        mmap(nullptr, bytes_of(processes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) refuse(ErrorCode::OutOfMemory, "no room to map it");
    head_ = static_cast<Head*>(at);
    notes_ = reinterpret_cast<Note*>(head_ + 1);
}

GatherBoard::~GatherBoard() {
    (void)munmap(head_, bytes_of(processes_));
}

GatherBoard::Note& GatherBoard::note(std::size_t process, std::uint64_t gather) const {
    return notes_[2 * process + gather % 2];
}

bool GatherBoard::is_over() const {
    return (head_->done.load(std::memory_order_acquire) & kOver) != 0;
}

bool GatherBoard::all_have_said(std::uint64_t gather, std::uint64_t hash) const {
    for (std::size_t p = 0; p < processes_; ++p) {
        Note const& theirs = note(p, gather);
        // acquire: its words.
        if (theirs.gather.load(std::memory_order_acquire) != gather) return false;
        // They speak of different things, which only the coordinator tells apart.
        if (theirs.what != hash) return false;
    }
    return true;
}

// One word says how far all have come and whether the board is over, so that a gather is complete for all or for none.
bool GatherBoard::wait(std::uint64_t gather, std::uint64_t hash,
                       std::function<bool()> const& stop) {
    auto const start = Clock::now();
    auto look = start + std::chrono::milliseconds(1);
    for (;;) {
        bool const all = all_have_said(gather, hash);
        auto const now = Clock::now();
        bool gives_up = now - start > kPatience;
        if (!gives_up && now > look) {
            gives_up = stop();
            look = now + std::chrono::milliseconds(1);
        }
        std::uint64_t done = head_->done.load(std::memory_order_acquire);
        if (all || gives_up) {
            std::uint64_t seen = gather - 1;
            // acq_rel: a process that finds it complete finds all words.
            std::uint64_t const next = all ? gather : seen | kOver;
            if (head_->done.compare_exchange_strong(seen, next, std::memory_order_acq_rel)) {
                return all;
            }
            done = seen;
        }
        if ((done & ~kOver) >= gather) return true;
        if ((done & kOver) != 0) return false;
        if (now - start < kSpin) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(kNap);
        }
    }
}

std::optional<std::vector<std::string>> GatherBoard::gather(std::string_view what,
                                                            std::string_view words,
                                                            std::function<bool()> const& stop) {
    // Another thread's gather is under way: then this one is the coordinator's in all processes, since the board is soon over.
    std::unique_lock const alone(mutex_, std::try_to_lock);
    if (!alone || is_over()) return std::nullopt;
    std::uint64_t const number = ++number_;
    std::uint64_t const hash = text_hash(what);
    // What stood there is of the gather before the last one, which everybody has read: all have come to the last one since.
    Note& mine = note(me_, number);
    mine.what = hash;
    mine.size = words.size() <= kMostBytes ? words.size() : kTooLong;
    if (mine.size != kTooLong) std::copy(words.begin(), words.end(), mine.bytes);
    mine.gather.store(number, std::memory_order_release);
    if (!wait(number, hash, stop)) return std::nullopt;
    std::vector<std::string> all;
    all.reserve(processes_);
    for (std::size_t p = 0; p < processes_; ++p) {
        Note const& theirs = note(p, number);
        if (theirs.size > kMostBytes) return std::nullopt;
        all.emplace_back(theirs.bytes, theirs.size);
    }
    return all;
}

}  // namespace mgi
