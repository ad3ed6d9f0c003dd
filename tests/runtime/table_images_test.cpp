// Tables that are built here and moved to other addresses.
#include "runtime/table_images.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>

#include <mgi/error.hpp>

namespace mgi {
namespace {

struct Node {
    std::uint64_t number = 0;
    Node* next = nullptr;
};

Node* make_node(std::pmr::memory_resource& memory) {
    return new (memory.allocate(sizeof(Node), alignof(Node))) Node();
}

// A node in each of two memories, each with the other's address.
TableImages ring() {
    return TableImages({sizeof(Node), sizeof(Node) + 40},
                       [](TableImages::Memories const& memories) {
                           Node* const first = make_node(*memories[0]);
                           Node* const second = make_node(*memories[1]);
                           *first = {7, second};
                           *second = {8, first};
                       });
}

TEST(TableImages, LeadToWhereAllOfThemLie) {
    TableImages images = ring();
    std::vector<std::vector<std::byte>> there{std::vector<std::byte>(images.bytes(0)),
                                              std::vector<std::byte>(images.bytes(1))};
    std::vector<std::byte*> const addresses{there[0].data(), there[1].data()};
    for (std::size_t i = 0; i < 2; ++i) {
        auto const moved = images.moved(i, addresses);
        ASSERT_EQ(moved.size(), there[i].size());
        std::memcpy(there[i].data(), moved.data(), moved.size());
    }
    auto const* const first = reinterpret_cast<Node const*>(there[0].data());
    EXPECT_EQ(first->number, 7U);
    EXPECT_EQ(reinterpret_cast<std::byte const*>(first->next), there[1].data());
    EXPECT_EQ(first->next->number, 8U);
    EXPECT_EQ(first->next->next, first);
}

TEST(TableImages, StayWhatWasBuilt) {
    TableImages const images = ring();
    auto const* const first = reinterpret_cast<Node const*>(images.data(0));
    EXPECT_EQ(first->next->next, first);
    EXPECT_EQ(reinterpret_cast<std::byte const*>(first->next), images.data(1));
}

// What a kernel would see, of ring().
struct There {
    explicit There(TableImages& images) : first(images.bytes(0)), second(images.bytes(1)) {
        std::vector<std::byte*> const addresses{first.data(), second.data()};
        auto const move_to = [&](std::size_t image, std::vector<std::byte>& there) {
            auto const moved = images.moved(image, addresses);
            std::copy(moved.begin(), moved.end(), there.begin());
        };
        move_to(0, first);
        move_to(1, second);
    }
    Node& node() { return *reinterpret_cast<Node*>(first.data()); }

    std::vector<std::byte> first;
    std::vector<std::byte> second;
};

TEST(TableImages, TakeInWordsButNoAddresses) {
    TableImages images = ring();
    There there(images);
    auto const& image = *reinterpret_cast<Node const*>(images.data(0));
    Node const* const next = image.next;
    for (std::uint64_t const number : {9U, 9U, 10U, 7U}) {
        there.node().number = number;
        images.take_in(0, there.first.data(), 0, images.bytes(0));
        EXPECT_EQ(image.number, number);
        EXPECT_EQ(image.next, next);
    }
}

TEST(TableImages, KeepWordsOfTheirOwn) {
    TableImages images = ring();
    There there(images);
    auto& image = *reinterpret_cast<Node*>(images.data(0));
    images.keep(0, &image.number);
    image.number = 1;
    there.node().number = 9;
    images.take_in(0, there.first.data(), 0, images.bytes(0));
    EXPECT_EQ(image.number, 1U);
}

TEST(TableImages, AreResetToWhatTheyWere) {
    TableImages images = ring();
    There there(images);
    std::vector<std::byte> const first = there.first;
    auto& image = *reinterpret_cast<Node*>(images.data(0));
    Node const* const next = image.next;
    for (std::uint64_t const number : {9U, 7U, 10U}) {
        there.node().number = number;
        images.take_in(0, there.first.data(), 0, images.bytes(0));
        images.reset(0, first.data());
        EXPECT_EQ(image.number, 7U);
        EXPECT_EQ(image.next, next);
        // What it is there is seen again.
        images.take_in(0, there.first.data(), 0, images.bytes(0));
        EXPECT_EQ(image.number, number);
    }
    images.keep(0, &image.number);
    images.keep(0, &image.number);
    image.number = 1;
    images.reset(0, first.data());
    EXPECT_EQ(image.number, 7U);
}

TEST(TableImages, TakeInLargeTablesPieceByPiece) {
    constexpr std::uint64_t kWords = 1000;
    TableImages images({8 * kWords}, [](TableImages::Memories const& memories) {
        (void)memories[0]->allocate(8 * kWords, 8);
    });
    (void)images.moved(0, {images.data(0)});
    std::vector<std::uint64_t> there(kWords);
    auto const* const image = reinterpret_cast<std::uint64_t const*>(images.data(0));
    for (std::uint64_t round = 1; round < 50; ++round) {
        there[round * 37 % kWords] = round;
        there[kWords - 1] = round;
        images.take_in(0, reinterpret_cast<std::byte const*>(there.data()), 0, 8 * kWords);
        ASSERT_TRUE(std::equal(there.begin(), there.end(), image)) << round;
    }
    there[0] = there[kWords - 1] = 99;
    images.take_in(0, reinterpret_cast<std::byte const*>(there.data()), TableImages::kPiece,
                   8 * kWords);
    EXPECT_EQ(image[kWords - 1], 99U);
    EXPECT_NE(image[0], 99U);
}

TEST(TableImages, RefuseWhatIsNotTheSameEachTime) {
    std::uint64_t times = 0;
    EXPECT_THROW(TableImages({sizeof(Node)},
                             [&](TableImages::Memories const& memories) {
                                 make_node(*memories[0])->number = ++times;
                             }),
                 Error);
}

TEST(TableImages, RefuseAddressesOfOtherMemory) {
    std::vector<std::unique_ptr<Node>> others;
    EXPECT_THROW(TableImages({sizeof(Node)},
                             [&](TableImages::Memories const& memories) {
                                 others.push_back(std::make_unique<Node>());
                                 make_node(*memories[0])->next = others.back().get();
                             }),
                 Error);
}

}  // namespace
}  // namespace mgi
