// Tables that work in memory the host does not reach, a GPU's: built in memory of the host's, and copied there with
// the addresses that they have there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <vector>

namespace mgi {

class TableImages {
public:
    using Memories = std::vector<std::pmr::memory_resource*>;
    // One image for each memory, of so many bytes. `build` builds the tables into them, the same ones each time: it
    // is called twice, and a word that differs is an address. Throws Error(Internal) for one that leads elsewhere.
    TableImages(std::vector<std::uint64_t> const& bytes,
                std::function<void(Memories const&)> const& build);

    [[nodiscard]] std::uint64_t bytes(std::size_t image) const { return images_[image].bytes; }
    // What was built in an image; its first object lies first.
    [[nodiscard]] std::byte* data(std::size_t image) const { return images_[image].data.get(); }
    // An image as it is where all of them lie at these addresses.
    [[nodiscard]] std::vector<std::byte> moved(std::size_t image,
                                               std::vector<std::byte*> const& to) const;

private:
    struct Free {
        void operator()(std::byte* data) const;
    };
    struct Image {
        explicit Image(std::uint64_t size);
        std::uint64_t bytes;
        std::unique_ptr<std::byte, Free> data;
    };
    struct Pointer {
        std::uint64_t at;  // in its image
        std::size_t image;
        std::uint64_t offset;  // where it leads
    };
    static std::vector<Image> build_images(std::vector<std::uint64_t> const& bytes,
                                           std::function<void(Memories const&)> const& build);
    [[nodiscard]] Pointer pointer(std::uint64_t at, std::uint64_t address) const;

    std::vector<Image> images_;
    std::vector<std::vector<Pointer>> pointers_;  // by image
};

}  // namespace mgi
