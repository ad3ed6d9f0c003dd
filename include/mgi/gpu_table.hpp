/// \file
/// Columns in a GPU's memory: what operators on GPUs take and give, and how other libraries share it
/// without a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/schema.hpp>

struct ArrowSchema;
struct ArrowDeviceArray;

namespace mgi {

/// One column of a GpuTable. Pointers are to GPU memory and borrowed from the table's owner.
struct GpuColumn {
    void const* values =
        nullptr;  ///< multiples of their width; bits of a Bool; offsets of String and Binary
    std::uint8_t const* validity = nullptr;  ///< a bit a row; null where every row is valid
    std::int64_t offset = 0;                 ///< first row, in both
    Encoding encoding = Encoding::Plain;     ///< Offsets32 or Offsets64 of String and Binary
    std::byte const* bytes = nullptr;        ///< their characters
};

/// Rows of a schema in the memory of one GPU, immutable. Copies share the memory, which `owner` keeps
/// alive. Reading it from several threads is safe.
struct GpuTable {
    Schema schema;
    std::int64_t rows = 0;
    std::vector<GpuColumn> columns;
    int gpu = 0;  ///< N of "cuda:N"
    std::shared_ptr<void const> owner;

    /// Rows [first, first + count), without a copy.
    [[nodiscard]] GpuTable slice(std::int64_t first, std::int64_t count) const;
    /// Payload bytes: fixed widths, one bit a row for Bool and validity; of String and Binary the offsets alone, since the
    /// GPU's memory is not read.
    [[nodiscard]] std::int64_t bytes() const;
};

/// A column that somebody else holds in GPU memory, of `gpu_table`.
struct GpuColumnSource {
    std::string name;
    Type type;
    void const* values = nullptr;            ///< as in GpuColumn; null if there are no rows
    std::uint8_t const* validity = nullptr;  ///< null: no nulls
    std::int64_t offset = 0;                 ///< first row, in both
    Encoding encoding = Encoding::Plain;     ///< as in GpuColumn
    std::byte const* bytes = nullptr;        ///< as in GpuColumn
};

/// A table of columns that lie in a GPU's memory already. Nothing is copied; `keep_alive` is dropped with
/// the last copy of the table. What fills the columns must have ended before they are read: call `wait_for_gpu_stream` with the
/// stream that does, or name that stream to the operator (OperatorOptions::gpu_streams), which works behind it. Throws Error(InvalidArgument) that names the column: a type that is not supported on
/// GPUs, String and Binary otherwise than by offsets (Arrow's views), an address that is no multiple of the width.
GpuTable gpu_table(int gpu, std::int64_t rows, std::vector<GpuColumnSource> const& columns,
                   std::shared_ptr<void const> keep_alive);

/// Waits for all that was put into a stream (a cudaStream_t; null is the legacy default stream). Not while
/// kernels run that wait for each other, see docs/gpu.md. Throws Error(GroupFailed) where the GPU's
/// context is lost, InvalidArgument for a GPU that this process does not see.
void wait_for_gpu_stream(int gpu, void* stream);

/// Arrow's C device data interface; the structs are in <mgi/arrow_device_abi.hpp>. An import takes
/// ownership of both, also when it throws, and waits for `sync_event`. The memory is that of a CUDA device
/// (or managed). An export has no sync_event: what it hands out is complete; its release callback may be
/// called from any thread. Nothing is copied. Throws Error(InvalidArgument) that names the column, or the GPU
/// that this process does not see; NotFound where there is no driver.
GpuTable import_gpu_table(ArrowDeviceArray* array, ArrowSchema* schema);
void export_gpu_table(GpuTable const& table, ArrowDeviceArray* out);
/// The schema as the table is exported, whose String and Binary follow its columns' encoding.
void export_schema(GpuTable const& table, ArrowSchema* out);

/// Copies between the host's memory and a GPU's, at the link's speed: through 8 to 64 MiB of pinned buffers for each GPU, which the
/// first copies make and the process keeps. A table's batches come one after the other; texts lie by offsets, of 32 bits
/// where they fit and no batch has wider ones. Throw Error(OutOfMemory), InvalidArgument as `gpu_table` does and for a GPU
/// that this process does not see, and NotFound where there is no driver. Thread-safe.
GpuTable copy_to_gpu(Table const& table, int gpu);
GpuTable copy_to_gpu(RecordBatch const& batch, int gpu);
RecordBatch copy_to_host(GpuTable const& table);

/// Gives the memory that results and tables of operators have left on a GPU back to it: operators keep up
/// to a quarter of its memory for the next ones, and as much of what other processes have written into. Returns the bytes. Thread-safe; not while kernels run that
/// wait for each other.
/// In the library mgi_gpu_operators, which MGI_BUILD_CUDA builds.
std::uint64_t trim_gpu_memory(int gpu);

}  // namespace mgi
