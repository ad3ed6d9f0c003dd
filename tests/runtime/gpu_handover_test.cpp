// What one process leaves at another one's door, and how it hears that it is in use no more.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>

#include "runtime/gpu_handover.hpp"
#include "support/expect_error.hpp"

namespace mgi::test::gpu_handover {
namespace {

Descriptor file_with(std::string const& words) {
    Descriptor file(memfd_create("words", MFD_CLOEXEC));
    EXPECT_EQ(pwrite(file.get(), words.data(), words.size(), 0), ssize_t(words.size()));
    return file;
}

std::string words_in(Descriptor const& file) {
    std::array<char, 64> words{};
    EXPECT_GT(pread(file.get(), words.data(), words.size() - 1, 0), 0);
    return words.data();
}

TEST(GpuHandover, BringsDescriptorsOfEachInTheirOrder) {
    GpuDoor const door;
    Descriptor const one = file_with("one");
    Descriptor const two = file_with("two");
    Descriptor const from_four = hand_over(door.name(), 4, {one.get(), two.get()});
    Descriptor const from_seven = hand_over(door.name(), 7, {});
    auto const all = door.all_that_came();
    ASSERT_EQ(all.size(), 2U);
    ASSERT_EQ(all.at(4).memories.size(), 2U);
    EXPECT_EQ(words_in(all.at(4).memories[0]), "one");
    EXPECT_EQ(words_in(all.at(4).memories[1]), "two");
    EXPECT_TRUE(all.at(7).memories.empty());
}

TEST(GpuHandover, NothingHasCome) {
    GpuDoor const door;
    EXPECT_TRUE(door.all_that_came().empty());
}

TEST(GpuHandover, ThereIsNoSuchDoor) {
    std::string name;
    {
        GpuDoor const door;
        name = door.name();
    }
    expect_error(ErrorCode::Refused, {"hand over", name}, [&] { (void)hand_over(name, 0, {}); });
    expect_error(ErrorCode::Refused, {"hand over"}, [] { (void)hand_over("", 0, {}); });
}

TEST(GpuHandover, ManyMayComeBeforeAnyoneLooks) {
    GpuDoor const door;
    std::vector<Descriptor> open;
    for (std::uint32_t from = 0; from < 200; ++from) {
        open.push_back(hand_over(door.name(), from, {}));
    }
    EXPECT_EQ(door.all_that_came().size(), 200U);
}

TEST(GpuHandover, WhoHasDoneIsHeardOf) {
    GpuImporters importers;
    EXPECT_EQ(importers.use(), gpu::Use::Over);
    GpuDoor const first;
    GpuDoor const second;
    importers.add(hand_over(first.name(), 0, {}));
    importers.add(hand_over(second.name(), 0, {}));
    auto one = first.all_that_came();
    auto two = second.all_that_came();
    EXPECT_EQ(importers.use(), gpu::Use::OnGoing);
    say_over(*one.at(0).connection);
    EXPECT_EQ(importers.use(), gpu::Use::OnGoing);
    say_over(*two.at(0).connection);
    two.clear();
    EXPECT_EQ(importers.use(), gpu::Use::Over);
    one.clear();
    EXPECT_EQ(importers.use(), gpu::Use::Over);
}

TEST(GpuHandover, WhoHandsOverIsHeardOfToTheEnd) {
    GpuDoor const door;
    auto importers = std::make_optional<GpuImporters>();
    importers->add(hand_over(door.name(), 0, {}));
    auto const came = door.all_that_came();
    Descriptor const& connection = *came.at(0).connection;
    EXPECT_FALSE(is_closed(connection));
    say_over(connection);
    EXPECT_EQ(importers->use(), gpu::Use::Over);
    EXPECT_FALSE(is_closed(connection));
    importers.reset();
    EXPECT_TRUE(is_closed(connection));
    say_over(connection);  // nobody hears it
}

TEST(GpuHandover, WhoClosesWithoutAWordHasBrokenOff) {
    GpuImporters importers;
    {
        GpuDoor const door;
        importers.add(hand_over(door.name(), 0, {}));
        EXPECT_EQ(importers.use(), gpu::Use::OnGoing);
    }
    EXPECT_EQ(importers.use(), gpu::Use::Broken);
    EXPECT_EQ(importers.use(), gpu::Use::Broken);
}

TEST(GpuHandover, WhoDiesHasBrokenOff) {
    GpuImporters importers;
    auto door = std::make_optional<GpuDoor>();
    // The child has the door, too, and allocates nothing: other threads may have held the heap's locks.
    pid_t const child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    std::string const name = door->name();
    door.reset();
    importers.add(hand_over(name, 0, {}));
    EXPECT_EQ(importers.use(), gpu::Use::OnGoing);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(importers.use(), gpu::Use::Broken);
}

}  // namespace
}  // namespace mgi::test::gpu_handover
