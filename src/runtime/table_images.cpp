#include "runtime/table_images.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <mgi/device/assert.hpp>
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
    images.reserve(bytes.size());
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

void TableImages::keep(std::size_t image, void const* word) {
    std::uint64_t const offset =
        number_of(static_cast<std::byte const*>(word)) - number_of(images_[image].data.get());
    std::uint64_t const at = offset / kWord * kWord;
    auto& kept = images_[image].kept;
    if (std::find(kept.begin(), kept.end(), at) != kept.end()) return;
    kept.push_back(at);
    auto& all = pointers_[image];
    auto const place = std::lower_bound(
        all.begin(), all.end(), at, [](Pointer const& p, std::uint64_t to) { return p.at < to; });
    all.insert(place, {at, kKept, 0});
}

void TableImages::take_in(std::size_t image, std::byte const* there, std::uint64_t from,
                          std::uint64_t to) {
    Image& into = images_[image];
    MGI_ASSERT(to <= into.taken.size(), to, into.taken.size());
    auto const& all = pointers_[image];
    for (; from < to; from += kPiece) {
        std::uint64_t const end = std::min(from + kPiece, to);
        if (std::memcmp(&into.taken[from], there + from, end - from) == 0) continue;
        into.changed[from / kPiece] = true;
        auto next = std::lower_bound(all.begin(), all.end(), from,
                                     [](Pointer const& p, std::uint64_t at) { return p.at < at; });
        for (std::uint64_t at = from; at < end; at += kWord) {
            bool is_word = true;
            for (; next != all.end() && next->at == at; ++next) is_word = false;
            std::uint64_t const word = word_at(there + at);
            // What nobody changes others read as it is.
            if (!is_word || word == word_at(&into.taken[at])) continue;
            auto* const here = reinterpret_cast<std::uint64_t*>(into.data.get() + at);
            __atomic_store_n(here, word, __ATOMIC_RELAXED);
        }
        std::memcpy(&into.taken[from], there + from, end - from);
    }
}

std::span<std::byte const> TableImages::moved(std::size_t image,
                                              std::vector<std::byte*> const& to) {
    Image& from = images_[image];
    from.taken.assign(from.data.get(), from.data.get() + from.bytes);
    from.changed.assign((from.bytes + kPiece - 1) / kPiece, false);
    for (Pointer const& pointer : pointers_[image]) {
        if (pointer.image == kKept) continue;
        std::uint64_t const address = number_of(to[pointer.image] + pointer.offset);
        std::memcpy(from.taken.data() + pointer.at, &address, kWord);
    }
    return from.taken;
}

void TableImages::reset(std::size_t image, std::byte const* moved) {
    Image& of = images_[image];
    for (std::size_t piece = 0; piece < of.changed.size(); ++piece) {
        if (!of.changed[piece]) continue;
        std::uint64_t const from = piece * kPiece;
        take_in(image, moved, from, std::min(from + kPiece, of.bytes));
        of.changed[piece] = false;
    }
    for (std::uint64_t const at : of.kept) std::memcpy(of.data.get() + at, moved + at, kWord);
}

}  // namespace mgi
