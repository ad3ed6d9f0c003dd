// Tables in GPUs' memory, and what the host sees of them; the GPUs are made up, and their memory is the host's.
#include "runtime/gpu_tables.hpp"

#include <gtest/gtest.h>

#include <mgi/error.hpp>

#include "support/fake_driver.hpp"

namespace mgi {
namespace {

struct Node {
    std::uint64_t number = 0;
    Node* next = nullptr;
};

// A node on each of two GPUs, each with the other's address.
GpuTables ring() {
    auto const reserve = std::make_shared<gpu::Reserve>(0, 0);
    return GpuTables(*reserve, {{sizeof(Node), 0}, {sizeof(Node), 1}},
                     [](TableImages::Memories const& memories) {
                         auto const make = [](std::pmr::memory_resource& memory) {
                             return new (memory.allocate(sizeof(Node), alignof(Node))) Node();
                         };
                         Node* const first = make(*memories[0]);
                         Node* const second = make(*memories[1]);
                         *first = {7, second};
                         *second = {8, first};
                     });
}

Node& image(GpuTables const& tables, std::size_t table) {
    return *reinterpret_cast<Node*>(tables.image(table));
}

Node& there(GpuTables const& tables, std::size_t table) {
    return *tables.on_gpu(table, &image(tables, table));
}

TEST(GpuTables, LieOnTheGpus) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    GpuTables const tables = ring();
    EXPECT_NE(&there(tables, 0), &image(tables, 0));
    EXPECT_EQ(there(tables, 0).number, 7U);
    EXPECT_EQ(there(tables, 0).next, &there(tables, 1));
    EXPECT_EQ(there(tables, 1).next, &there(tables, 0));
    EXPECT_EQ(image(tables, 0).next, &image(tables, 1));
}

TEST(GpuTables, ShowWhatKernelsHaveMadeOfThem) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    GpuTables tables = ring();
    there(tables, 0).number = 70;
    there(tables, 1).number = 80;
    EXPECT_EQ(image(tables, 0).number, 7U);
    tables.refresh(0);
    EXPECT_EQ(image(tables, 0).number, 70U);
    EXPECT_EQ(image(tables, 1).number, 8U);
    EXPECT_EQ(image(tables, 0).next, &image(tables, 1));
}

TEST(GpuTables, WriteWordsForKernels) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    GpuTables tables = ring();
    std::uint64_t const number = 9;
    tables.write(1, &image(tables, 1).number, &number, sizeof(number));
    EXPECT_EQ(there(tables, 1).number, 9U);
    EXPECT_EQ(there(tables, 0).number, 7U);
}

TEST(GpuTables, SetWordsThatNoRefreshChanges) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    GpuTables tables = ring();
    Node other;
    tables.set(0, image(tables, 0).next, &other, &there(tables, 0));
    tables.set(0, image(tables, 0).number, std::uint64_t(1), std::uint64_t(2));
    tables.refresh(0);
    EXPECT_EQ(image(tables, 0).next, &other);
    EXPECT_EQ(image(tables, 0).number, 1U);
    EXPECT_EQ(there(tables, 0).next, &there(tables, 0));
    EXPECT_EQ(there(tables, 0).number, 2U);
}

// One node, built as often as `built` says.
class Kept {
public:
    explicit Kept(std::uint64_t most = 1 << 20) : kept_(std::make_shared<KeptTables>(most)) {}

    [[nodiscard]] GpuTables make(std::uint32_t slots = 4) {
        Plan plan;
        plan.slots = slots;
        return GpuTables(
            *reserve_, {{sizeof(Node), 0}},
            [this](TableImages::Memories const& memories) {
                ++built;
                auto* const node = new (memories[0]->allocate(sizeof(Node), alignof(Node))) Node();
                *node = {7, node};
            },
            kept_, table_source({}, plan));
    }
    void trim() { kept_->trim(); }

    int built = 0;  // two images each time

private:
    std::shared_ptr<gpu::Reserve> reserve_ = std::make_shared<gpu::Reserve>(1000, 1000);
    std::shared_ptr<KeptTables> kept_;
};

TEST(GpuTables, AreAsNewForAChannelLikeOneThatIsGone) {
    test::FakeDriver const gpus;
    Kept kept;
    for (std::uint64_t round = 0; round < 3; ++round) {
        GpuTables tables = kept.make();
        EXPECT_EQ(kept.built, 2);
        EXPECT_EQ(image(tables, 0).number, 7U);
        EXPECT_EQ(image(tables, 0).next, &image(tables, 0));
        EXPECT_EQ(there(tables, 0).number, 7U);
        EXPECT_EQ(there(tables, 0).next, &there(tables, 0));
        tables.keep(0, &image(tables, 0).number);
        image(tables, 0).number = 70 + round;
        there(tables, 0).number = 80 + round;
        there(tables, 0).next = nullptr;
        tables.refresh(0);
    }
}

TEST(GpuTables, AreBuiltAgainForAnotherPlanAndWhereTheyWereChanged) {
    test::FakeDriver const gpus;
    Kept kept;
    (void)kept.make(4);
    (void)kept.make(8);
    EXPECT_EQ(kept.built, 4);
    (void)kept.make(8);
    (void)kept.make(4);
    EXPECT_EQ(kept.built, 4);
    {
        GpuTables tables = kept.make(4);
        tables.set(0, image(tables, 0).number, std::uint64_t(1), std::uint64_t(2));
    }
    kept.make(4).abandon(0);
    EXPECT_EQ(kept.built, 6);
    (void)kept.make(4);
    EXPECT_EQ(kept.built, 8);
    kept.trim();
    (void)kept.make(4);
    EXPECT_EQ(kept.built, 10);
}

TEST(GpuTables, AreKeptAsFarAsTheyMay) {
    test::FakeDriver const gpus;
    Kept kept(2 * sizeof(Node));
    for (std::uint32_t const slots : {1U, 2U, 4U}) (void)kept.make(slots);
    EXPECT_EQ(kept.built, 6);
    (void)kept.make(2);
    (void)kept.make(4);
    EXPECT_EQ(kept.built, 6);
    (void)kept.make(1);
    EXPECT_EQ(kept.built, 8);
}

TEST(GpuTables, AreNotThereWithoutMemory) {
    test::FakeDriver const gpus({{"DEVICES", "2"}, {"MEMORY", "8"}});
    std::size_t const memory = gpus.alive("memory");
    std::size_t const pinned = gpus.alive("pinned");
    std::size_t const streams = gpus.alive("streams");
    EXPECT_THROW((void)ring(), Error);
    EXPECT_EQ(gpus.alive("memory"), memory);
    EXPECT_EQ(gpus.alive("pinned"), pinned);
    EXPECT_EQ(gpus.alive("streams"), streams);
}

TEST(GpuTables, SayThatAGpuIsLost) {
    test::FakeDriver const gpus({{"DEVICES", "2"}});
    GpuTables tables = ring();
    gpus.fail("cuMemcpyDtoHAsync:1:700");
    EXPECT_THROW(tables.refresh(0), Error);
    EXPECT_EQ(image(tables, 0).number, 7U);
}

}  // namespace
}  // namespace mgi
