// Tables in the memory of GPUs, which the host does not reach, and the host's images of them. Other processes may have
// some of them, in memory that this one's GPUs reach: each process builds all, and brings its own there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/reserve.hpp"
#include "runtime/kept_tables.hpp"

namespace mgi {

// Where a table is to lie.
struct TableSite {
    std::uint64_t bytes = 0;
    int gpu = 0;  // not of another process' table
    // What it lies in from the start on; null: memory for it alone.
    std::shared_ptr<gpu::DeviceMemory> memory = nullptr;
    // Another process' table, as GPUs here reach it; else null.
    char* elsewhere = nullptr;
    // Bytes of the host's memory, zero at first, that kernels write to, and where in the table the pointer to it is.
    std::uint64_t host_bytes = 0;
    std::uint64_t host_at = 0;
};

// Thread-safe once it is made, but for `set`.
class GpuTables {
public:
    // `build`: see TableImages. Where `kept` has tables of the source, these are taken in place of building any; it gets
    // them when nobody uses them any more, unless words of them were set. Null: nothing is kept.
    GpuTables(gpu::Reserve& reserve, std::vector<TableSite> const& sites,
              std::function<void(TableImages::Memories const&)> const& build,
              std::shared_ptr<KeptTables> kept = nullptr, TableSource source = {});
    ~GpuTables();
    GpuTables(GpuTables const&) = delete;
    GpuTables& operator=(GpuTables const&) = delete;

    [[nodiscard]] std::byte* image(std::size_t table) const { return built_->images.data(table); }
    // Where an object of an image lies on the GPU.
    template <class T>
    [[nodiscard]] T* on_gpu(std::size_t table, T* of_image) const {
        return reinterpret_cast<T*>(address(table, static_cast<void const*>(of_image)));
    }
    // Makes a word another one on the GPU, now, and another one here, for good: no refresh changes it.
    template <class T>
    void set(std::size_t table, T& of_image, T here, T there) {
        static_assert(sizeof(T) == sizeof(std::uint64_t));
        auto const* const word = static_cast<void const*>(&of_image);
        built_->images.keep(table, word);
        is_as_built_ = false;
        of_image = here;
        write(table, word, static_cast<void const*>(&there), sizeof(T));
    }
    // A word that only the host changes.
    void keep(std::size_t table, void const* of_image) { built_->images.keep(table, of_image); }
    // All of these are for tables of this process alone.
    //
    // Writes bytes over an object on the GPU; what kernels see of it they see at once.
    void write(std::size_t table, void const* of_image, void const* bytes, std::uint64_t count);
    // Takes in what kernels have made of the words.
    void refresh(std::size_t table);
    // The same of so many bytes of an image, and what lies about them.
    void refresh(std::size_t table, void const* of_image, std::uint64_t bytes);
    // Its memory is freed, and not kept for others.
    void abandon(std::size_t table);

private:
    void refresh_range(std::size_t table, std::uint64_t from, std::uint64_t to);
    [[nodiscard]] std::byte* address(std::size_t table, void const* of_image) const;

    struct Table {
        Table(gpu::Reserve& reserve, TableSite const& site);
        ~Table();
        Table(Table const&) = delete;
        Table& operator=(Table const&) = delete;
        int gpu;
        std::mutex mutex;  // of all below and of the image's words
        char* at;
        std::shared_ptr<gpu::DeviceMemory> memory;  // none of another process', nor what is below
        std::shared_ptr<gpu::OwnStream> stream;
        char* first = nullptr;    // pinned memory: what the table was first,
        char* copy = nullptr;     // a copy of it,
        char* written = nullptr;  // and what is written to it
    };
    void build(gpu::Reserve& reserve, std::vector<TableSite> const& sites,
               std::function<void(TableImages::Memories const&)> const& build);
    // Brings so many bytes of `copy` to the table, or the other way round; the next waits until they are there.
    static void bring(Table const& table, std::byte* there, char const* here, std::uint64_t bytes,
                      char const* what);
    static void fetch(Table const& table, std::uint64_t from, std::uint64_t bytes,
                      char const* what);

    std::shared_ptr<KeptTables> kept_;
    std::unique_ptr<BuiltTables> built_;
    std::vector<std::unique_ptr<Table>> tables_;
    bool is_as_built_ = true;  // but for what kernels have made of it
};

}  // namespace mgi
