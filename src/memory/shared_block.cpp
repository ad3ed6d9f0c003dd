#include "memory/shared_block.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <mgi/error.hpp>

#include "core/process_limits.hpp"
#include "core/text.hpp"

namespace mgi::memory {

namespace {

// Where blocks lie: far from what the kernel gives by itself (from below the stack downwards), from the
// heap and from the program, so that an address that is free in one process mostly is in all.
#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer leaves little to an application.
constexpr std::uint64_t kFirstAddress = 0x7e90'0000'0000;
constexpr std::uint64_t kEndAddress = 0x7ef0'0000'0000;
#else
constexpr std::uint64_t kFirstAddress = 0x2000'0000'0000;
constexpr std::uint64_t kEndAddress = 0x5000'0000'0000;
#endif

constexpr int kTries = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Closes unless it is taken out.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    Descriptor(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor const&) = delete;
    [[nodiscard]] int get() const { return number_; }
    int release() { return std::exchange(number_, -1); }

private:
    int number_;
};

std::string system_text(int code) {
    return std::system_category().message(code);
}

[[noreturn]] void no_memory(std::uint64_t bytes, int code) {
    std::string const why = code == EMFILE ? bytes_text(bytes) + ": " + too_many_files_text()
                                           : no_addresses_text(bytes, code);
    throw Error(ErrorCode::OutOfMemory, "memory that processes share: " + why +
                                            ", or ask for less (a lower receive_limit)");
}

[[noreturn]] void refuse(std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "this is no memory that processes share: " + what);
}

std::uint64_t round_up(std::uint64_t bytes) {
    return (bytes + SharedBlock::kAlignment - 1) / SharedBlock::kAlignment *
           SharedBlock::kAlignment;
}

// The blocks of this process: two runtimes in it that have the same one must share its mapping.
struct Known {
    dev_t device = 0;
    ino_t number = 0;
    std::weak_ptr<SharedBlock> block;
};
std::recursive_mutex known_mutex;  // a block may die where it is being made
std::map<std::uint64_t, Known>& known_blocks() {
    static auto* const blocks =
        new std::map<std::uint64_t, Known>;  // batches may outlive everything
    return *blocks;
}

struct stat facts_of(int descriptor) {
    struct stat facts{};
    if (fstat(descriptor, &facts) != 0) refuse(system_text(errno));
    return facts;
}

}  // namespace

std::uint64_t SharedBlock::most_bytes() {
    return (kEndAddress - kFirstAddress) / 8;
}

// Null: something else lies there. The caller holds the mutex.
std::shared_ptr<SharedBlock> SharedBlock::map(int descriptor, std::uint64_t address,
                                              std::uint64_t bytes) {
    Descriptor own(fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
    if (own.get() < 0) no_memory(bytes, errno);
    struct stat const facts = facts_of(own.get());
    if (auto const at = known_blocks().find(address); at != known_blocks().end()) {
        Known const& known = at->second;
        bool const same = known.device == facts.st_dev && known.number == facts.st_ino;
        return same ? known.block.lock() : nullptr;
    }
    void* const wanted = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    void* const at = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, own.get(), 0);
    int const code = errno;
    if (at == MAP_FAILED && code == EEXIST) return nullptr;
    if (at == MAP_FAILED) no_memory(bytes, code);
    if (at != wanted) {  // a kernel that takes the address for a hint
        munmap(at, bytes);
        return nullptr;
    }
    // The protocols' words belong to this process' threads; a child that shared them would be a second one
    // of each.
    madvise(at, bytes, MADV_DONTFORK);
    madvise(at, bytes, MADV_HUGEPAGE);  // without huge pages it is merely slower
    SharedBlock* raw = nullptr;
    try {
        raw = new SharedBlock(own.get(), static_cast<char*>(at), bytes);
    } catch (...) {
        munmap(at, bytes);
        throw;
    }
    (void)own.release();
    std::shared_ptr<SharedBlock> block(raw);
    known_blocks().insert_or_assign(address, Known{facts.st_dev, facts.st_ino, block});
    return block;
}

std::shared_ptr<SharedBlock> SharedBlock::create(std::uint64_t bytes) {
    std::uint64_t const size = round_up(bytes);
    if (bytes > most_bytes()) no_memory(bytes, ENOMEM);
    Descriptor const file(memfd_create("mgi", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
        no_memory(size, errno);
    }
    std::random_device random;
    std::uniform_int_distribution<std::uint64_t> place(
        0, (kEndAddress - kFirstAddress - size) / kAlignment);
    std::lock_guard const lock(known_mutex);
    for (int tries = 0; tries < kTries; ++tries) {
        auto block = map(file.get(), kFirstAddress + place(random) * kAlignment, size);
        if (block != nullptr) return block;
    }
    throw Error(ErrorCode::OutOfMemory, "found no address for " + bytes_text(size) +
                                            " to share between processes, in " +
                                            std::to_string(kTries) + " tries");
}

std::shared_ptr<SharedBlock> SharedBlock::open(int descriptor, std::uint64_t address,
                                               std::uint64_t bytes) {
    struct stat const facts = facts_of(descriptor);
    int const seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0) refuse(system_text(errno));
    if ((seals & kSeals) != kSeals) refuse("its size is not sealed");
    std::uint64_t const size = round_up(bytes);
    if (bytes > most_bytes() || facts.st_size < 0 || std::uint64_t(facts.st_size) != size) {
        refuse("it has " + std::to_string(facts.st_size) + " bytes, not the " +
               std::to_string(size) + " that it should have");
    }
    if (address % kAlignment != 0 || address < kFirstAddress || address > kEndAddress - size) {
        refuse("it wants to lie at address " + std::to_string(address));
    }
    std::lock_guard const lock(known_mutex);
    return map(descriptor, address, size);
}

SharedBlock::~SharedBlock() {
    std::lock_guard const lock(known_mutex);
    munmap(data_, bytes_);
    close(descriptor_);
    known_blocks().erase(address());
}

bool SharedBlock::reserve(std::uint64_t offset, std::uint64_t bytes) noexcept {
    int code = 0;
    do {
        code = fallocate(descriptor_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0
                   ? 0
                   : errno;
    } while (code == EINTR);
    return code == 0;
}

}  // namespace mgi::memory
