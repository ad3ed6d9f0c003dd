#include "runtime/gpu_tables.hpp"

#include <algorithm>
#include <cstring>

#include <mgi/device/assert.hpp>

namespace mgi {

namespace {

constexpr std::uint64_t kWritten = 64;  // bytes at once

gpu::Address address_of(void const* at) {
    return reinterpret_cast<gpu::Address>(at);
}

std::vector<std::uint64_t> bytes_of(std::vector<TableSite> const& sites) {
    std::vector<std::uint64_t> bytes;
    for (TableSite const& site : sites) bytes.push_back(site.bytes);
    return bytes;
}

}  // namespace

GpuTables::Table::Table(gpu::Reserve& reserve, TableSite const& site, std::uint64_t bytes)
    : gpu(site.gpu), at(site.elsewhere), memory(site.memory) {
    if (at != nullptr) return;
    if (memory == nullptr) memory = reserve.memory(gpu, bytes);
    MGI_ASSERT(bytes <= memory->bytes(), bytes, memory->bytes());
    at = memory->data();
    copy = reserve.pinned(gpu, bytes + kWritten);
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
    driver.check(driver.cuMemcpyDtoHAsync(table.copy->data() + from, address_of(table.at + from),
                                          bytes, table.stream->get()),
                 what, table.gpu);
}

GpuTables::GpuTables(gpu::Reserve& reserve, std::vector<TableSite> const& sites,
                     std::function<void(TableImages::Memories const&)> const& build)
    : images_(bytes_of(sites), build) {
    std::vector<std::byte*> addresses;
    for (std::size_t i = 0; i < sites.size(); ++i) {
        Table const& table =
            *tables_.emplace_back(std::make_unique<Table>(reserve, sites[i], images_.bytes(i)));
        addresses.push_back(reinterpret_cast<std::byte*>(table.at));
    }
    constexpr char const* kWhat = "bring a channel's tables";
    for (std::size_t i = 0; i < sites.size(); ++i) {
        Table const& table = *tables_[i];
        if (table.stream == nullptr) continue;
        auto const moved = images_.moved(i, addresses);
        std::memcpy(table.copy->data(), moved.data(), moved.size());
        bring(table, addresses[i], table.copy->data(), moved.size(), kWhat);
    }
    for (auto const& table : tables_) {
        if (table->stream != nullptr) table->stream->wait(kWhat);
    }
}

std::byte* GpuTables::address(std::size_t table, void const* of_image) const {
    auto const offset = static_cast<std::byte const*>(of_image) - images_.data(table);
    return reinterpret_cast<std::byte*>(tables_[table]->at) + offset;
}

void GpuTables::write(std::size_t table, void const* of_image, void const* bytes,
                      std::uint64_t count) {
    constexpr char const* kWhat = "write a channel's word";
    Table& to = *tables_[table];
    char* const from = to.copy->data() + images_.bytes(table);
    std::lock_guard const lock(to.mutex);
    std::memcpy(from, bytes, count);
    bring(to, address(table, of_image), from, count, kWhat);
    to.stream->wait(kWhat);
}

void GpuTables::abandon(std::size_t table) {
    tables_[table]->memory->abandon();
    tables_[table]->copy->abandon();
}

void GpuTables::refresh(std::size_t table) {
    refresh_range(table, 0, images_.bytes(table));
}

void GpuTables::refresh(std::size_t table, void const* of_image, std::uint64_t bytes) {
    constexpr std::uint64_t kPiece = TableImages::kPiece;
    auto const from =
        static_cast<std::uint64_t>(static_cast<std::byte const*>(of_image) - images_.data(table));
    std::uint64_t const to = (from + bytes + kPiece - 1) / kPiece * kPiece;
    refresh_range(table, from / kPiece * kPiece, std::min(to, images_.bytes(table)));
}

void GpuTables::refresh_range(std::size_t table, std::uint64_t from, std::uint64_t to) {
    constexpr char const* kWhat = "look into a channel's tables";
    Table& there = *tables_[table];
    std::lock_guard const lock(there.mutex);
    fetch(there, from, to - from, kWhat);
    there.stream->wait(kWhat);
    images_.take_in(table, reinterpret_cast<std::byte const*>(there.copy->data()), from, to);
}

}  // namespace mgi
