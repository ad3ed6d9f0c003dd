#include "runtime/table_images.hpp"

#include <cstring>
#include <new>

#include <mgi/error.hpp>

namespace mgi {

namespace {

constexpr std::align_val_t kLine{64};
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(std::byte const* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, kWord);
    return word;
}

std::uint64_t number_of(std::byte const* at) {
    return reinterpret_cast<std::uintptr_t>(at);
}

}  // namespace

void TableImages::Free::operator()(std::byte* data) const {
    ::operator delete(data, kLine);
}

TableImages::Image::Image(std::uint64_t size)
    : bytes((size + kWord - 1) / kWord * kWord),
      data(static_cast<std::byte*>(::operator new(bytes, kLine))) {
    std::memset(data.get(), 0, bytes);
}

std::vector<TableImages::Image> TableImages::build_images(
    std::vector<std::uint64_t> const& bytes, std::function<void(Memories const&)> const& build) {
    std::vector<Image> images;
    std::vector<std::unique_ptr<std::pmr::monotonic_buffer_resource>> resources;
    Memories memories;
    for (std::uint64_t const size : bytes) {
        Image const& image = images.emplace_back(size);
        resources.push_back(std::make_unique<std::pmr::monotonic_buffer_resource>(
            image.data.get(), image.bytes, std::pmr::null_memory_resource()));
        memories.push_back(resources.back().get());
    }
    build(memories);
    return images;
}

TableImages::TableImages(std::vector<std::uint64_t> const& bytes,
                         std::function<void(Memories const&)> const& build)
    : images_(build_images(bytes, build)), pointers_(images_.size()) {
    std::vector<Image> const others = build_images(bytes, build);
    for (std::size_t i = 0; i < images_.size(); ++i) {
        for (std::uint64_t at = 0; at < images_[i].bytes; at += kWord) {
            std::uint64_t const here = word_at(images_[i].data.get() + at);
            std::uint64_t const there = word_at(others[i].data.get() + at);
            if (here == there) continue;
            Pointer const& found = pointers_[i].emplace_back(pointer(at, here));
            if (number_of(others[found.image].data.get()) + found.offset == there) continue;
            throw Error(ErrorCode::Internal, "two images of the same tables differ");
        }
    }
}

TableImages::Pointer TableImages::pointer(std::uint64_t at, std::uint64_t address) const {
    for (std::size_t i = 0; i < images_.size(); ++i) {
        std::uint64_t const offset = address - number_of(images_[i].data.get());
        if (offset < images_[i].bytes) return {at, i, offset};
    }
    throw Error(ErrorCode::Internal, "a table names an address that is in no table");
}

std::vector<std::byte> TableImages::moved(std::size_t image,
                                          std::vector<std::byte*> const& to) const {
    Image const& from = images_[image];
    std::vector<std::byte> copy(from.data.get(), from.data.get() + from.bytes);
    for (Pointer const& pointer : pointers_[image]) {
        std::uint64_t const address = number_of(to[pointer.image] + pointer.offset);
        std::memcpy(copy.data() + pointer.at, &address, kWord);
    }
    return copy;
}

}  // namespace mgi
