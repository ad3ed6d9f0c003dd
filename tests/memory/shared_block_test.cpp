// Memory that processes share, seen by several holders in one process; processes of their own have it in
// tests/process.
#include "memory/shared_block.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "memory/pool.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using memory::SharedBlock;

constexpr std::uint64_t kBlockBytes = 3 * SharedBlock::kAlignment;

// A descriptor that is closed at the end of a scope.
struct File {
    explicit File(int fd) : number(fd) {}
    ~File() { close(number); }
    File(File const&) = delete;
    File& operator=(File const&) = delete;
    int number;
};

TEST(SharedBlock, IsZeroAndShared) {
    auto const made = SharedBlock::create(kBlockBytes - 5);
    EXPECT_EQ(made->bytes(), kBlockBytes);
    ASSERT_TRUE(made->reserve(0, kBlockBytes));
    EXPECT_EQ(made->data()[0] | made->data()[kBlockBytes - 1], 0);
    auto const found = SharedBlock::open(made->descriptor(), made->address(), kBlockBytes);
    ASSERT_EQ(found, made) << "one mapping in a process";
    EXPECT_NE(SharedBlock::create(kBlockBytes)->address(), made->address());
}

TEST(SharedBlock, OutlivesItsMaker) {
    auto made = SharedBlock::create(kBlockBytes);
    File const file(dup(made->descriptor()));
    std::uint64_t const address = made->address();
    ASSERT_TRUE(made->reserve(0, 4096));
    std::strcpy(made->data(), "here");
    made.reset();
    auto const found = SharedBlock::open(file.number, address, kBlockBytes);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->address(), address);
    EXPECT_STREQ(found->data(), "here");
}

TEST(SharedBlock, SaysThatItsAddressIsTaken) {
    auto made = SharedBlock::create(kBlockBytes);
    File const file(dup(made->descriptor()));
    std::uint64_t const address = made->address();
    made.reset();
    void* const wanted = reinterpret_cast<void*>(address + kBlockBytes - 4096);
    void* const other =
        mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(other, wanted);
    EXPECT_EQ(SharedBlock::open(file.number, address, kBlockBytes), nullptr);
    munmap(other, 4096);
    EXPECT_NE(SharedBlock::open(file.number, address, kBlockBytes), nullptr);
    // Another block of this process at the same address is something else, too.
    auto const there = SharedBlock::open(file.number, address, kBlockBytes);
    auto const another = SharedBlock::create(kBlockBytes);
    EXPECT_EQ(SharedBlock::open(another->descriptor(), address, kBlockBytes), nullptr);
}

TEST(SharedBlock, RefusesWhatIsNone) {
    auto const made = SharedBlock::create(kBlockBytes);
    auto const refused = [&](int descriptor, std::uint64_t address, std::uint64_t bytes) {
        expect_error(ErrorCode::InvalidArgument, {},
                     [&] { (void)SharedBlock::open(descriptor, address, bytes); });
    };
    int const fd = made->descriptor();
    refused(-1, made->address(), kBlockBytes);
    refused(fd, made->address(), kBlockBytes + 1);
    refused(fd, made->address(), 0);
    refused(fd, made->address(), UINT64_MAX);
    refused(fd, made->address() + 4096, kBlockBytes);
    refused(fd, 0, kBlockBytes);
    refused(fd, UINT64_MAX / SharedBlock::kAlignment * SharedBlock::kAlignment, kBlockBytes);
    File const zero(open("/dev/zero", O_RDWR));
    refused(zero.number, made->address(), kBlockBytes);
    File const unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(unsealed.number, static_cast<off_t>(kBlockBytes)), 0);
    refused(unsealed.number, made->address(), kBlockBytes);
}

TEST(SharedBlock, HasALimit) {
    expect_error(ErrorCode::OutOfMemory, {}, [] { (void)SharedBlock::create(UINT64_MAX); });
    expect_error(ErrorCode::OutOfMemory, {},
                 [] { (void)SharedBlock::create(SharedBlock::most_bytes() + 1); });
    // Room that nobody reserves costs nothing.
    EXPECT_EQ(SharedBlock::create(std::uint64_t{1} << 35)->bytes(), std::uint64_t{1} << 35);
}

TEST(SharedBlock, AForkedChildDoesNotHaveIt) {
    auto const made = SharedBlock::create(kBlockBytes);
    ASSERT_TRUE(made->reserve(0, 4096));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    File const in(ends[0]);
    File const out(ends[1]);
    ASSERT_EQ(write(ends[1], made->data(), 1), 1);
    pid_t const child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(write(ends[1], made->data(), 1) < 0 && errno == EFAULT ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(SharedBlock, GrowingPartsOfTwoPoolsAreApart) {
    constexpr std::uint64_t kPiece = 4096;
    auto const block = SharedBlock::create(kBlockBytes);
    auto const account = std::make_shared<memory::Account>(std::uint64_t{1} << 20);
    {
        memory::Pool a({block, 0, 8192, 100}, 8192, kPiece, 2 * kPiece, account);
        memory::Pool b({block, 0, 16384, 100}, 8192, kPiece, 2 * kPiece, account);
        EXPECT_EQ(a.base(), b.base());
        EXPECT_EQ(account->left(), account->limit() - 200);
        std::optional<std::uint64_t> const offsets[]{a.borrow().offset, a.borrow().offset,
                                                     b.borrow().offset, b.borrow().offset};
        for (std::uint64_t i = 0; i < 4; ++i) {
            ASSERT_TRUE(offsets[i]);
            EXPECT_EQ(*offsets[i], 8192 + i * kPiece);
            std::memset(a.base() + *offsets[i], int(i), kPiece);
        }
        EXPECT_FALSE(a.borrow().offset);
        EXPECT_FALSE(b.borrow().offset);
        // Whoever detaches a batch gets a segment from wherever the slot had it.
        for (int i = 0; i < 2; ++i) {
            a.settle();
            b.settle();
        }
        b.give(*offsets[0]);
        EXPECT_EQ(b.borrow().offset, offsets[0]);
        b.give_back(*offsets[0]);
    }
    EXPECT_EQ(account->left(), account->limit());
    // Nothing of it is closed to others that have the block still.
    for (std::uint64_t i = 0; i < 6 * kPiece; ++i) block->data()[i] = 1;
}

}  // namespace
}  // namespace mgi::test
