/// \file
/// A hand-built channel that one group of one thread drives step by step.
#pragma once

#include <string>
#include <vector>

#include "support/groups.hpp"
#include "support/tables.hpp"
#include "support/tiny_channel.hpp"

namespace mgi::test {

/// A channel with one group on each side, driven step by step from this thread.
struct OneGroup {
    OneGroup(Schema columns, TinyOptions const& options, std::uint32_t blocks = 1)
        : schema(std::move(columns)), tiny(schema, options), scratch(tiny.on(0, 0).shared_bytes()) {
        group.blocks = blocks;
    }
    device::SendResult send(std::vector<Row> const& rows) {
        DeviceBatch offered(make_batch(schema, rows));
        return tiny.on(0, 0).send(group, shared(), offered.slice(0, rows.size()));
    }
    device::CallResult flush() { return tiny.on(0, 0).flush(group, shared()); }
    device::CallResult push() { return tiny.on(0, 0).push(group, shared()); }
    /// Receives once and keeps the batch.
    device::CallResult recv(std::uint32_t destination = 0) {
        device::CallResult const result = tiny.on(0, destination).recv(group, shared(), batch);
        for (std::uint32_t i = 0; result == device::Status::Ok && i < batch.rows; ++i) {
            got.push_back(encode_row(batch, schema, i));
        }
        return result;
    }
    void release(std::uint32_t destination = 0) {
        tiny.on(0, destination).release(group, shared(), batch);
    }
    device::Shared& shared() { return scratch_view = scratch.shared(); }

    Schema schema;
    TinyChannel tiny;
    Scratch scratch;
    device::Shared scratch_view;
    device::Group group;
    device::ReceivedBatch batch;
    std::vector<std::string> got;
};

inline TinyOptions options_of(std::uint32_t segment_rows, std::uint32_t slots,
                              std::uint32_t tile_rows) {
    TinyOptions options;
    options.segment_rows = segment_rows;
    options.slots = slots;
    options.tile_rows = tile_rows;
    return options;
}

}  // namespace mgi::test
