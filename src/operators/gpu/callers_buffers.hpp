// Results of an operator in buffers that its caller has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "operators/gpu/columns.hpp"
#include "operators/gpu/operation.hpp"
#include "operators/gpu/tables.hpp"

namespace mgi::operators::on_gpu {

// Bits as they are, to the beginning of a word.
struct CopyBits {
    MGI_HD void operator()(device::Group const& group, device::Shared&, u8 const* from, u64 offset,
                           u64 rows, u8* to) const {
        each_of(group, (rows + 7) / 8, [&](u64 b) {
            u32 byte = 0;
            for (u32 i = 0; i < 8 && 8 * b + i < rows; ++i) {
                byte |= (device::bit_at(from, offset + 8 * b + i) ? 1u : 0u) << i;
            }
            to[b] = u8(byte);
        });
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
        }
        if (result.rows == 0) return;
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
        auto const* const source = static_cast<char const*>(from.values);
        u64 const width = std::max(1u, type.row_width());
        if (values < source + u64(from.offset) * width + rows * width &&
            source < values + rows * width) {
            refuse_column(c, "lies where the result does; give other memory than the inputs'");
        }
        if (type.id == TypeId::Bool) {
            copy_bits(static_cast<u8 const*>(from.values), from.offset, rows, values);
        } else {
            place_.copy(values, source + u64(from.offset) * width, rows * width);
        }
        auto* const validity = reinterpret_cast<char*>(const_cast<u8*>(to.validity));
        if (from.validity != nullptr) {
            if (validity == nullptr) refuse_column(c, "has no validity, which the result has");
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

// What is wrong with OperatorOptions::gpu_out whatever the results are; called before the work. Throws Error(InvalidArgument).
inline void check_callers_buffers(Operation const& operation) {
    auto const& buffers = operation.options().gpu_out;
    if (buffers.empty()) return;
    if (buffers.size() != operation.size()) {
        refuse(operation.what(), "gpu_out has " + std::to_string(buffers.size()) + " tables for " +
                                     std::to_string(operation.size()) +
                                     " endpoints; give one for each");
    }
    std::map<char const*, char const*> taken;  // the end of memory, by its beginning
    for (std::size_t const e : operation.own()) {
        GpuTable const& buffer = buffers[e];
        std::string const what = operation.what() + ": gpu_out[" + std::to_string(e) + "]";
        if (buffer.rows != 0 && buffer.gpu != operation.place(e).gpu()) {
            refuse(what, "lies on cuda:" + std::to_string(buffer.gpu) +
                             ", and its endpoint is on " + operation.place(e).name());
        }
        for (std::size_t c = 0; c < buffer.columns.size() && buffer.rows != 0; ++c) {
            Field const& field = buffer.schema[c];
            if (field.type.is_variable()) {
                refuse(what, "cannot take column '" + field.name + "': how many characters " +
                                 field.type.to_string() + " takes is not known before");
            }
            auto const* const begin = static_cast<char const*>(buffer.columns[c].values);
            auto const bytes = std::max<u64>(u64(buffer.rows) * field.type.row_width(), 1);
            auto const next = taken.upper_bound(begin);
            bool const apart = (next == taken.end() || begin + bytes <= next->first) &&
                               (next == taken.begin() || std::prev(next)->second <= begin);
            if (!apart) refuse(what, "has column '" + field.name + "' where another one lies");
            taken.emplace(begin, begin + bytes);
        }
    }
}

// The results of an operator in the buffers of OperatorOptions::gpu_out.
inline std::vector<GpuTable> in_callers_buffers_of(Operation& operation,
                                                   std::vector<GpuTable> results) {
    check_callers_buffers(operation);
    auto const& buffers = operation.options().gpu_out;
    operation.each([&](std::size_t e) {
        CallersBuffer buffer(operation.place(e),
                             operation.what() + ": gpu_out[" + std::to_string(e) + "]", buffers[e]);
        results[e] = buffer.fill(results[e]);
    });
    operation.end_phase("copy");
    return results;
}

}  // namespace mgi::operators::on_gpu
