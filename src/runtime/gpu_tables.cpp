#include "runtime/gpu_tables.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <mgi/device/assert.hpp>

namespace mgi {

namespace {

constexpr std::uint64_t kWritten = 64;  // bytes at once

gpu::Address address_of(void const* at) {
    return reinterpret_cast<gpu::Address>(at);
}

// Images are whole words.
std::uint64_t whole(std::uint64_t bytes) {
    return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t);
}

std::vector<std::uint64_t> bytes_of(std::vector<TableSite> const& sites) {
    std::vector<std::uint64_t> bytes;
    for (TableSite const& site : sites) bytes.push_back(site.bytes);
    return bytes;
}

}  // namespace

GpuTables::Table::Table(gpu::Reserve& reserve, TableSite const& site)
    : gpu(site.gpu), at(site.elsewhere), memory(site.memory) {
    if (at != nullptr) return;
    if (memory == nullptr) memory = reserve.memory(gpu, whole(site.bytes));
    MGI_ASSERT(whole(site.bytes) <= memory->bytes(), site.bytes, memory->bytes());
    at = memory->data();
    stream = reserve.stream(gpu);
}

// Others may have the memory next.
GpuTables::Table::~Table() {
    if (stream == nullptr) return;
    try {
        stream->wait("end a channel's copies");
    } catch (std::exception const&) {
        // The GPU's context is lost, and its copies with it.
    }
}

void GpuTables::bring(Table const& table, std::byte* there, char const* here, std::uint64_t bytes,
                      char const* what) {
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::Current const on(table.gpu);
    driver.check(driver.cuMemcpyHtoDAsync(address_of(there), here, bytes, table.stream->get()),
                 what, table.gpu);
}

void GpuTables::fetch(Table const& table, std::uint64_t from, std::uint64_t bytes,
                      char const* what) {
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::Current const on(table.gpu);
    driver.check(driver.cuMemcpyDtoHAsync(table.copy + from, address_of(table.at + from), bytes,
                                          table.stream->get()),
                 what, table.gpu);
}

GpuTables::GpuTables(gpu::Reserve& reserve, std::vector<TableSite> const& sites,
                     std::function<void(TableImages::Memories const&)> const& build,
                     std::shared_ptr<KeptTables> kept, TableSource source)
    : kept_(std::move(kept)) {
    for (TableSite const& site : sites) {
        tables_.push_back(std::make_unique<Table>(reserve, site));
        source.addresses.push_back(tables_.back()->at);
    }
    if (kept_ != nullptr) built_ = kept_->find(source);
    if (built_ == nullptr) {
        this->build(reserve, sites, build);
        built_->source = std::move(source);
    }
    constexpr char const* kWhat = "bring a channel's tables";
    for (std::size_t i = 0; i < sites.size(); ++i) {
        Table& table = *tables_[i];
        if (table.stream == nullptr) continue;
        std::uint64_t const bytes = built_->images.bytes(i);
        table.first = built_->pinned[i]->data();
        table.copy = table.first + bytes;
        table.written = table.copy + bytes;
        std::memset(table.written + kWritten, 0, sites[i].host_bytes);
        bring(table, reinterpret_cast<std::byte*>(table.at), table.first, bytes, kWhat);
    }
    for (auto const& table : tables_) {
        if (table->stream != nullptr) table->stream->wait(kWhat);
    }
}

void GpuTables::build(gpu::Reserve& reserve, std::vector<TableSite> const& sites,
                      std::function<void(TableImages::Memories const&)> const& build) {
    built_ = std::make_unique<BuiltTables>(BuiltTables{{}, {bytes_of(sites), build}, {}});
    TableImages& images = built_->images;
    std::vector<std::byte*> addresses;
    for (auto const& table : tables_) addresses.push_back(reinterpret_cast<std::byte*>(table->at));
    for (std::size_t i = 0; i < sites.size(); ++i) {
        auto& pinned = built_->pinned.emplace_back();
        if (tables_[i]->stream == nullptr) continue;
        pinned = reserve.pinned(sites[i].gpu, 2 * images.bytes(i) + kWritten + sites[i].host_bytes);
        if (sites[i].host_bytes != 0) {
            char* const host = pinned->data() + 2 * images.bytes(i) + kWritten;
            std::memcpy(images.data(i) + sites[i].host_at, static_cast<void const*>(&host),
                        sizeof(host));
        }
        auto const moved = images.moved(i, addresses);
        std::memcpy(pinned->data(), moved.data(), moved.size());
    }
}

// For a channel like this one. Where memory was abandoned, kernels may still come to it.
GpuTables::~GpuTables() {
    if (kept_ == nullptr || built_ == nullptr || !is_as_built_) return;
    for (auto const& table : tables_) {
        if (table->memory != nullptr && table->memory->abandoned()) return;
    }
    try {
        for (std::size_t i = 0; i < tables_.size(); ++i) {
            if (tables_[i]->first != nullptr) {
                tables_[i]->stream->wait("end a channel's copies");
                built_->images.reset(i, reinterpret_cast<std::byte const*>(tables_[i]->first));
            }
        }
        kept_->keep(std::move(built_));
    } catch (std::exception const&) {
        // Then nobody has them again.
    }
}

std::byte* GpuTables::address(std::size_t table, void const* of_image) const {
    auto const offset = static_cast<std::byte const*>(of_image) - image(table);
    return reinterpret_cast<std::byte*>(tables_[table]->at) + offset;
}

void GpuTables::write(std::size_t table, void const* of_image, void const* bytes,
                      std::uint64_t count) {
    constexpr char const* kWhat = "write a channel's word";
    Table& to = *tables_[table];
    std::lock_guard const lock(to.mutex);
    std::memcpy(to.written, bytes, count);
    bring(to, address(table, of_image), to.written, count, kWhat);
    to.stream->wait(kWhat);
}

void GpuTables::abandon(std::size_t table) {
    tables_[table]->memory->abandon();
    built_->pinned[table]->abandon();
}

void GpuTables::refresh(std::size_t table) {
    refresh_range(table, 0, built_->images.bytes(table));
}

void GpuTables::refresh(std::size_t table, void const* of_image, std::uint64_t bytes) {
    constexpr std::uint64_t kPiece = TableImages::kPiece;
    auto const from =
        static_cast<std::uint64_t>(static_cast<std::byte const*>(of_image) - image(table));
    std::uint64_t const to = (from + bytes + kPiece - 1) / kPiece * kPiece;
    refresh_range(table, from / kPiece * kPiece, std::min(to, built_->images.bytes(table)));
}

void GpuTables::refresh_range(std::size_t table, std::uint64_t from, std::uint64_t to) {
    constexpr char const* kWhat = "look into a channel's tables";
    Table& there = *tables_[table];
    std::lock_guard const lock(there.mutex);
    fetch(there, from, to - from, kWhat);
    there.stream->wait(kWhat);
    built_->images.take_in(table, reinterpret_cast<std::byte const*>(there.copy), from, to);
}

}  // namespace mgi
