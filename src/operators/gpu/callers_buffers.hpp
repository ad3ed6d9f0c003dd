// Results of an operator in buffers that its caller has.
#pragma once

#include "operators/gpu/columns.hpp"
#include "operators/gpu/operation.hpp"
#include "operators/gpu/tables.hpp"

namespace mgi::operators::on_gpu {

// Bits as they are, to the beginning of a word.
struct CopyBits {
    MGI_HD void operator()(device::Group const& group, device::Shared&, u8 const* from, u64 offset,
                           u64 rows, u8* to) const {
        u64 const step = u64{group.threads} * group.blocks;
        for (u64 b = u64{group.block} * group.threads + group.thread; b < (rows + 7) / 8;
             b += step) {
            u32 byte = 0;
            for (u32 i = 0; i < 8 && 8 * b + i < rows; ++i) {
                byte |= (device::bit_at(from, offset + 8 * b + i) ? 1u : 0u) << i;
            }
            to[b] = u8(byte);
        }
    }
};

// Copies an endpoint's result into the buffers that the caller has there.
class CallersBuffer {
public:
    // `what` starts every message.
    CallersBuffer(Place& place, std::string what, GpuTable const& buffer)
        : place_(place), what_(std::move(what)), buffer_(buffer) {}

    // What lies there then. Throws Error(InvalidArgument) where there is no room for it.
    GpuTable fill(GpuTable const& result) {
        check(result);
        GpuTable table;
        table.schema = result.schema;
        table.rows = result.rows;
        table.gpu = place_.gpu();
        table.owner = buffer_.owner;
        for (std::size_t c = 0; c < result.columns.size(); ++c) {
            table.columns.push_back(fill(result, c));
        }
        place_.wait();
        return table;
    }

private:
    void check(GpuTable const& result) const {
        if (buffer_.schema.size() != result.schema.size()) {
            refuse(what_, "has " + std::to_string(buffer_.schema.size()) +
                              " columns, and the result has " +
                              std::to_string(result.schema.size()));
        }
        for (std::size_t c = 0; c < result.schema.size(); ++c) {
            Field const& wanted = result.schema[c];
            Field const& given = buffer_.schema[c];
            if (given.name != wanted.name || given.type != wanted.type) {
                refuse(what_, "has column '" + given.name + "' of " + given.type.to_string() +
                                  " where the result has '" + wanted.name + "' of " +
                                  wanted.type.to_string());
            }
            if (wanted.type.is_variable()) {
                refuse(what_, "cannot take column '" + wanted.name + "': how many characters " +
                                  wanted.type.to_string() +
                                  " takes is not known; leave gpu_out away");
            }
        }
        if (result.rows == 0) return;
        if (buffer_.gpu != place_.gpu()) {
            refuse(what_, "lies on cuda:" + std::to_string(buffer_.gpu) +
                              ", and its endpoint is on " + place_.name());
        }
        if (buffer_.rows < result.rows) {
            refuse(what_, "has room for " + std::to_string(buffer_.rows) +
                              " rows, and the result has " + std::to_string(result.rows));
        }
    }

    GpuColumn fill(GpuTable const& result, std::size_t c) {
        Type const& type = result.schema[c].type;
        GpuColumn const& from = result.columns[c];
        GpuColumn to = buffer_.columns[c];
        if (to.offset != 0) refuse_column(c, "does not begin at its first row");
        if (result.rows == 0) return to;
        if (to.values == nullptr) refuse_column(c, "has no address");
        u64 const rows = u64(result.rows);
        auto* const values = static_cast<char*>(const_cast<void*>(to.values));
        if (type.id == TypeId::Bool) {
            copy_bits(static_cast<u8 const*>(from.values), from.offset, rows, values);
        } else {
            u64 const width = type.row_width();
            auto const* const first =
                static_cast<char const*>(from.values) + from.offset * i64(width);
            place_.copy(values, first, rows * width);
        }
        auto* const validity = reinterpret_cast<char*>(const_cast<u8*>(to.validity));
        if (from.validity != nullptr) {
            if (validity == nullptr) refuse_column(c, "has no validity, and the result has nulls");
            copy_bits(from.validity, from.offset, rows, validity);
        } else if (validity != nullptr) {
            place_.fill(validity, 0xff, (rows + 7) / 8);
        }
        return to;
    }
    void copy_bits(u8 const* from, i64 offset, u64 rows, char* to) {
        place_.run(0, CopyBits{}, from, u64(offset), rows, reinterpret_cast<u8*>(to));
    }
    [[noreturn]] void refuse_column(std::size_t c, std::string const& why) const {
        refuse(what_, "column '" + buffer_.schema[c].name + "' " + why);
    }

    Place& place_;
    std::string const what_;
    GpuTable const& buffer_;
};

// The results of an operator in the buffers of OperatorOptions::gpu_out.
inline std::vector<GpuTable> in_callers_buffers_of(Operation& operation,
                                                   std::vector<GpuTable> results) {
    auto const& buffers = operation.options().gpu_out;
    if (buffers.size() != operation.size()) {
        refuse(operation.what(), "gpu_out has " + std::to_string(buffers.size()) + " tables for " +
                                     std::to_string(operation.size()) +
                                     " endpoints; give one for each");
    }
    operation.each([&](std::size_t e) {
        CallersBuffer buffer(operation.place(e),
                             operation.what() + ": gpu_out[" + std::to_string(e) + "]", buffers[e]);
        results[e] = buffer.fill(results[e]);
    });
    operation.end_phase("copy");
    return results;
}

}  // namespace mgi::operators::on_gpu
