// Tables that work in memory the host does not reach, a GPU's: built in memory of the host's, and copied there with
// the addresses that they have there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
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
    // A word of an image that is no word of the other memory's, from now on.
    void keep(std::size_t image, void const* word);
    // Takes in what the words of a range of an image are in the other memory, but for addresses and what is kept.
    // `there` is that memory, or a copy of the range there. The range begins and ends at multiples of kPiece or at the
    // image's end. Others may read the image meanwhile, each word by itself.
    void take_in(std::size_t image, std::byte const* there, std::uint64_t from, std::uint64_t to);
    static constexpr std::uint64_t kPiece = 512;
    // An image as it is where all of them lie at these addresses, and as others are to have it now.
    std::span<std::byte const> moved(std::size_t image, std::vector<std::byte*> const& to);
    // Makes it what it was before anything was taken in; `moved`: what it was then, at the same addresses. Of an image
    // of which no address is kept.
    void reset(std::size_t image, std::byte const* moved);

private:
    struct Free {
        void operator()(std::byte* data) const;
    };
    struct Image {
        explicit Image(std::uint64_t size);
        std::uint64_t bytes;
        std::unique_ptr<std::byte, Free> data;
        std::vector<std::byte>
            taken;  // the other memory as it was last seen; most of it stays what it is
        std::vector<bool> changed;        // by piece: whether it was ever seen to be another one
        std::vector<std::uint64_t> kept;  // where words are that are kept
    };
    static constexpr std::size_t kKept = SIZE_MAX;
    struct Pointer {
        std::uint64_t at;      // in its image
        std::size_t image;     // that it leads to; kKept: it is no address
        std::uint64_t offset;  // where it leads
    };
    static std::vector<Image> build_images(std::vector<std::uint64_t> const& bytes,
                                           std::function<void(Memories const&)> const& build);
    [[nodiscard]] Pointer pointer(std::uint64_t at, std::uint64_t address) const;

    std::vector<Image> images_;
    std::vector<std::vector<Pointer>> pointers_;  // by image
};

}  // namespace mgi
