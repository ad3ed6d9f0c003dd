/// \file
/// Rows of host tables on their way to a GPU, for callers that choose the rows or bring the memory: what copy_to_gpu of
/// <mgi/gpu_table.hpp> and the operators over host tables do. Bytes go through a few pinned buffers that threads of the
/// host fill, so that they move as fast as the link to the GPU is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/gpu_table.hpp>

namespace mgi {

/// Rows of one batch, which must outlive their use: consecutive ones, or some of these.
struct HostRows {
    RecordBatch const* batch = nullptr;
    std::int64_t first = 0;
    std::int64_t rows = 0;
    /// Which rows, counted from `first`; null: all, one after the other. Borrowed.
    std::uint16_t const* numbers = nullptr;
};

/// Makes the buffers for copies to and from a GPU, 8 MiB for each thread that fills or empties them, which copies make
/// otherwise: call it before kernels run beside copies, since the host's memory is pinned while no kernel is resident that waits
/// for it. They are kept to the end of the process. Throws Error as copy_to_gpu does. Thread-safe.
void prepare_gpu_copies(int gpu);

/// A table on a GPU that will have rows of host batches, one after the other. Reading it from several threads is safe.
class CopyToGpu {
public:
    /// Batches have the schema's columns, whatever their nullability and however texts lie. Columns that the schema does not call
    /// nullable get no validity. Looks through all texts.
    /// Throws Error(InvalidArgument) for a batch with another number of columns.
    CopyToGpu(Schema schema, std::vector<HostRows> rows);
    ~CopyToGpu();
    CopyToGpu(CopyToGpu&&) noexcept;
    CopyToGpu& operator=(CopyToGpu&&) noexcept;

    [[nodiscard]] std::int64_t rows() const;
    /// Of the GPU's memory.
    [[nodiscard]] std::uint64_t bytes() const;
    /// Copies the rows into memory of that GPU, `bytes()` of them at a multiple of 256, which the table keeps. Makes no
    /// memory but for a few buffers, and waits for nothing but its copies, so kernels may run. `gpu` below 0: the memory is
    /// the host's. Throws Error as copy_to_gpu does.
    [[nodiscard]] GpuTable copy(int gpu, std::shared_ptr<void> memory) const;

private:
    struct Layout;
    std::unique_ptr<Layout> layout_;
};

}  // namespace mgi
