// Tables that are built here and moved to other addresses.
#include "runtime/table_images.hpp"

#include <gtest/gtest.h>

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
    TableImages const images = ring();
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
