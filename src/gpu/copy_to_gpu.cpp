// Rows of host tables, laid out as a GPU's table and copied there by several threads.
#include <mgi/error.hpp>
#include <mgi/gpu_copies.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/parallel.hpp"
#include "gpu/host_rows.hpp"

namespace mgi {

namespace {

// Rows of texts that one thread reads at a time; where each such range's characters begin is known.
constexpr std::int64_t kTextRows = std::int64_t{1} << 16;
constexpr std::uint64_t kLine = 256;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

std::uint64_t next_place(std::uint64_t& total, std::uint64_t bytes) {
    std::uint64_t const at = total;
    total += (bytes + kLine - 1) / kLine * kLine;
    return at;
}

}  // namespace

void prepare_gpu_copies(int gpu) {
    gpu::make_pinned_buffers(gpu);
}

struct CopyToGpu::Layout {
    // A column's places in the table's memory.
    struct Placed {
        std::size_t column = 0;
        std::uint64_t width = 0;  // of a value, or an offset; 0: bits
        std::uint64_t values = 0;
        std::uint64_t validity = kNowhere;
        bool is_text = false;
        std::uint64_t characters = 0;
        std::vector<std::uint64_t> ends =
            {};  // characters before each range of rows, and all of them
    };
    // What one thread does at a time.
    struct Job {
        enum class Kind : std::uint8_t { Values, Bits, Validity, Offsets, Characters };
        Kind kind = Kind::Values;
        std::size_t column = 0;
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };

    Schema schema;
    std::vector<HostRows> runs;
    std::vector<std::int64_t> starts{0};  // of each run, and behind the last one
    std::vector<Placed> columns;
    std::vector<Job> jobs;
    std::uint64_t bytes = 0;

    Layout(Schema of, std::vector<HostRows> rows) : schema(std::move(of)), runs(std::move(rows)) {
        for (HostRows const& run : runs) {
            if (run.batch->columns.size() != schema.size()) {
                throw Error(ErrorCode::InvalidArgument,
                            "copy a table to the GPU: a batch has " +
                                std::to_string(run.batch->columns.size()) +
                                " columns in place of " + std::to_string(schema.size()));
            }
            starts.push_back(starts.back() + run.rows);
        }
        for (std::size_t c = 0; c < schema.size(); ++c) place(c);
    }

    [[nodiscard]] std::int64_t count() const { return starts.back(); }

    // Calls `visit(rows, at)` for the runs that have rows [begin, end) of the table; `at`: counted from `begin`.
    template <class Visit>
    void each_run(std::size_t column, std::int64_t begin, std::int64_t end,
                  Visit const& visit) const {
        auto const after = std::upper_bound(starts.begin(), starts.end(), begin);
        for (auto r = std::size_t(after - starts.begin()) - 1; r < runs.size() && starts[r] < end;
             ++r) {
            std::int64_t const first = std::max(begin, starts[r]);
            std::int64_t const last = std::min(end, starts[r + 1]);
            if (first >= last) continue;
            gpu::ColumnRows const rows{runs[r], runs[r].batch->columns[column], first - starts[r],
                                       last - starts[r]};
            visit(rows, first - begin);
        }
    }

    void write(Job const& job, char* memory, gpu::PieceWriter& writer) const {
        Placed const& to = columns[job.column];
        switch (job.kind) {
            case Job::Kind::Values: return write_values(job, memory + to.values, writer);
            case Job::Kind::Bits: return write_bits(job, memory + to.values, false, writer);
            case Job::Kind::Validity: return write_bits(job, memory + to.validity, true, writer);
            case Job::Kind::Offsets:
                if (to.width == 4) {
                    write_offsets<std::int32_t>(job, memory + to.values, writer);
                } else {
                    write_offsets<std::int64_t>(job, memory + to.values, writer);
                }
                return;
            case Job::Kind::Characters: return write_characters(job, memory, writer);
        }
    }

    [[nodiscard]] GpuTable table(int gpu, std::shared_ptr<void> memory) const {
        auto* const at = static_cast<char*>(memory.get());
        GpuTable made;
        made.schema = schema;
        made.rows = count();
        made.gpu = gpu;
        for (Placed const& placed : columns) {
            GpuColumn column;
            column.values = at + placed.values;
            if (placed.validity != kNowhere) {
                column.validity = reinterpret_cast<std::uint8_t const*>(at + placed.validity);
            }
            if (placed.is_text) {
                column.encoding = placed.width == 4 ? Encoding::Offsets32 : Encoding::Offsets64;
                column.bytes = reinterpret_cast<std::byte const*>(at + placed.characters);
            }
            made.columns.push_back(column);
        }
        made.owner = std::move(memory);
        return made;
    }

private:
    void place(std::size_t c) {
        Type const& type = schema[c].type;
        Placed placed;
        placed.column = c;
        placed.is_text = type.is_variable();
        placed.width = type.row_width();
        std::uint64_t values = std::uint64_t(count()) + 1;  // of texts' offsets one more
        if (placed.is_text) {
            measure(placed);
            // Large ones stay so.
            bool const large = std::any_of(runs.begin(), runs.end(), [&](HostRows const& run) {
                return run.batch->columns[c].encoding == Encoding::Offsets64;
            });
            bool const fits = placed.ends.back() <= std::numeric_limits<std::int32_t>::max();
            placed.width = fits && !large ? 4 : 8;
        }
        values = placed.width == 0 ? (values + 7) / 8 : values * placed.width;
        placed.values = next_place(bytes, values);
        bool const nulls =
            schema[c].nullable && std::any_of(runs.begin(), runs.end(), [&](HostRows const& run) {
                return run.batch->columns[c].validity != nullptr;
            });
        auto const bits = std::int64_t(8 * gpu::kPieceBytes);
        if (nulls) {
            placed.validity = next_place(bytes, std::uint64_t(count()) / 8 + 1);
            cut(Job::Kind::Validity, c, bits);
        }
        if (placed.is_text) {
            placed.characters = next_place(bytes, placed.ends.back());
            cut(Job::Kind::Offsets, c, kTextRows);
            cut(Job::Kind::Characters, c, kTextRows);
        } else if (placed.width == 0) {
            cut(Job::Kind::Bits, c, bits);
        } else {
            cut(Job::Kind::Values, c, std::int64_t(gpu::kPieceBytes / placed.width));
        }
        columns.push_back(std::move(placed));
    }

    // Jobs of so many rows each. Offsets have one even without rows: the first.
    void cut(Job::Kind kind, std::size_t column, std::int64_t rows) {
        std::int64_t begin = 0;
        do {
            std::int64_t const end = std::min(begin + rows, count());
            if (end != begin || kind == Job::Kind::Offsets) {
                jobs.push_back({kind, column, begin, end});
            }
            begin = end;
        } while (begin < count());
    }

    void measure(Placed& placed) const {
        auto const ranges = std::size_t((count() + kTextRows - 1) / kTextRows);
        placed.ends.assign(ranges + 1, 0);
        in_parallel(ranges, memory_threads(), [&](std::size_t range, std::size_t) {
            std::int64_t const begin = std::int64_t(range) * kTextRows;
            std::uint64_t sum = 0;
            each_run(placed.column, begin, std::min(begin + kTextRows, count()),
                     [&](gpu::ColumnRows const& rows, std::int64_t) {
                         sum += gpu::Texts(rows).bytes();
                     });
            placed.ends[range + 1] = sum;
        });
        for (std::size_t range = 0; range < ranges; ++range) {
            placed.ends[range + 1] += placed.ends[range];
        }
    }

    void write_values(Job const& job, char* values, gpu::PieceWriter& writer) const {
        std::uint64_t const width = columns[job.column].width;
        char* const room = writer.room();
        each_run(job.column, job.begin, job.end, [&](gpu::ColumnRows const& rows, std::int64_t at) {
            gpu::put_values(room + std::size_t(at) * width, rows, width);
        });
        writer.send(values + std::uint64_t(job.begin) * width,
                    std::size_t(job.end - job.begin) * width);
    }

    // Jobs begin at a multiple of 8 rows.
    void write_bits(Job const& job, char* to, bool validity, gpu::PieceWriter& writer) const {
        auto const size = std::size_t(job.end - job.begin + 7) / 8;
        auto* const room = reinterpret_cast<std::uint8_t*>(writer.room());
        std::memset(room, 0, size);
        each_run(job.column, job.begin, job.end, [&](gpu::ColumnRows const& rows, std::int64_t at) {
            auto const* const bits = validity
                                         ? rows.column.validity
                                         : static_cast<std::uint8_t const*>(rows.column.values);
            gpu::put_bits(room, std::size_t(at), rows, bits);
        });
        writer.send(to + job.begin / 8, size);
    }

    template <class Offset>
    void write_offsets(Job const& job, char* to, gpu::PieceWriter& writer) const {
        char* const room = writer.room();
        std::size_t used = 0;
        std::uint64_t next = columns[job.column].ends[std::size_t(job.begin / kTextRows)];
        auto const put = [&] {
            auto const offset = Offset(next);
            std::memcpy(room + used, &offset, sizeof(Offset));
            used += sizeof(Offset);
        };
        each_run(job.column, job.begin, job.end, [&](gpu::ColumnRows const& rows, std::int64_t) {
            gpu::Texts(rows).each([&](std::string_view text) {
                put();
                next += text.size();
            });
        });
        if (job.end == count()) put();
        writer.send(to + std::size_t(job.begin) * sizeof(Offset), used);
    }

    void write_characters(Job const& job, char* memory, gpu::PieceWriter& writer) const {
        Placed const& placed = columns[job.column];
        std::uint64_t const first = placed.ends[std::size_t(job.begin / kTextRows)];
        gpu::PieceStream stream(writer, memory + placed.characters + first);
        each_run(job.column, job.begin, job.end, [&](gpu::ColumnRows const& rows, std::int64_t) {
            gpu::Texts const texts(rows);
            if (texts.is_one_piece()) {
                stream.put(texts.piece().data(), texts.piece().size());
            } else {
                texts.each([&](std::string_view text) { stream.put(text.data(), text.size()); });
            }
        });
        stream.send();
    }
};

CopyToGpu::CopyToGpu(Schema schema, std::vector<HostRows> rows)
    : layout_(std::make_unique<Layout>(std::move(schema), std::move(rows))) {}
CopyToGpu::~CopyToGpu() = default;
CopyToGpu::CopyToGpu(CopyToGpu&&) noexcept = default;
CopyToGpu& CopyToGpu::operator=(CopyToGpu&&) noexcept = default;

std::int64_t CopyToGpu::rows() const {
    return layout_->count();
}

std::uint64_t CopyToGpu::bytes() const {
    return layout_->bytes;
}

GpuTable CopyToGpu::copy(int gpu, std::shared_ptr<void> memory) const {
    auto* const at = static_cast<char*>(memory.get());
    gpu::write_pieces(gpu, layout_->jobs.size(), [&](std::size_t job, gpu::PieceWriter& writer) {
        layout_->write(layout_->jobs[job], at, writer);
    });
    return layout_->table(gpu, std::move(memory));
}

}  // namespace mgi
