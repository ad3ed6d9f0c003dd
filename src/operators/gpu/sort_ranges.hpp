// Which endpoint's range of the keys each row falls into: samples of all parts, splitters that all processes find in them, and a
// look at every row.
#pragma once

#include "core/ordering.hpp"
#include "operators/gpu/ranges.hpp"
#include "operators/gpu/tables.hpp"
#include "operators/sort_splitters.hpp"

namespace mgi::operators::on_gpu {

struct SampleArgs {
    device::Batch batch;
    device::ColumnLayout const* layouts = nullptr;  // by column
    device::KeyOrder const* keys = nullptr;
    u32 key_count = 0;
    u64 const* rows = nullptr;  // those that are looked at
    u64 count = 0;
    u32 longest = 0;                          // of a text that is kept, bytes
    device::SplitterValue* values = nullptr;  // by row and key
    char* bytes = nullptr;                    // likewise, `longest` of each
};

struct SampleKeys {
    MGI_HD void operator()(device::Group const& group, device::Shared&, SampleArgs args) const {
        u64 const step = u64{group.threads} * group.blocks;
        u64 const count = args.count * args.key_count;
        for (u64 i = u64{group.block} * group.threads + group.thread; i < count; i += step) {
            device::KeyOrder const& key = args.keys[i % args.key_count];
            device::OrderedValue const value = device::ordered_value(
                args.batch, key, args.layouts[key.column], args.rows[i / args.key_count]);
            device::SplitterValue kept;
            kept.word = value.word;
            kept.low = value.low;
            kept.high = value.high;
            kept.begin = u32(i * args.longest);
            kept.size = value.null ? device::SplitterValue::kNull
                                   : device::min_of(value.text.size, args.longest);
            for (u32 b = 0; !value.null && b < kept.size; ++b) {
                args.bytes[kept.begin + b] = value.text.data[b];
            }
            args.values[i] = kept;
        }
    }
};

struct FindRanges {
    MGI_HD void operator()(device::Group const& group, device::Shared&, device::RangeTable table,
                           device::Batch batch, device::ColumnLayout const* layouts,
                           u16* ranges) const {
        constexpr u32 kTile = 4096;
        u64 const step = u64{kTile} * group.blocks;
        for (u64 first = u64{kTile} * group.block; first < batch.count; first += step) {
            u32 const rows = u32(device::min_of<u64>(kTile, batch.count - first));
            device::find_ranges(group, table, batch, layouts, first, rows, ranges + first);
        }
    }
};

class RangeFinder {
public:
    RangeFinder(Operation& operation, Input const& input, std::vector<SortKey> const& order)
        : operation_(operation),
          input_(input),
          order_(order),
          keys_(key_orders(operation.what(), order, input.schema())),
          layouts_(compared_columns(input.schema())) {}

    // `splitters`: null where they follow from samples.
    Ranges find(Splitters const* splitters) {
        Ranges ranges;
        ranges.routing.kind = device::RoutingKind::Range;
        ranges.routing.order = order_;
        ranges.routing.splitters = splitters != nullptr ? *splitters : agree();
        ranges.of_part.resize(operation_.size());
        ranges.memory.resize(operation_.size());
        operation_.each([&](std::size_t p) {
            ranges.memory[p] =
                operation_.place(p).allocate(sizeof(u16) * input_.rows(p), "ranges of rows");
            u16* const at = static_cast<u16*>(ranges.memory[p].get());
            ranges.of_part[p] = at;
            look_at(p, ranges.routing.splitters, at);
        });
        return ranges;
    }

private:
    // Bytes of a text that a sample keeps: what begins like it lies close, and any value will do for a splitter.
    static constexpr u32 kLongest = 256;

    // A part as kernels compare its rows.
    struct Compared {
        std::vector<Memory> keep;
        device::Batch batch;
        device::ColumnLayout const* layouts = nullptr;
        device::KeyOrder const* keys = nullptr;
    };
    [[nodiscard]] Compared compared(std::size_t p) const {
        Compared part;
        auto const all = input_.columns_or_all({});
        std::tie(part.batch.columns, part.layouts, part.keys) = operation_.place(p).upload(
            part.keep, input_.views(p, all, std::vector<bool>(all.size(), true)), layouts_, keys_);
        part.batch.count = input_.rows(p);
        return part;
    }

    Splitters agree() {
        return agree_on_splitters(
            keys_, sample(), operation_.size(),
            [this](std::string const& words) { return operation_.gather(words); });
    }

    Samples sample() const {
        std::vector<u64> rows(operation_.size());
        for (std::size_t const p : operation_.own()) rows[p] = input_.rows(p);
        Sampling plan =
            plan_samples(keys_, rows, input_.rows(), operation_.size(), operation_.alone());
        plan.longest = std::min(plan.longest, kLongest);
        std::vector<Samples> of_part(operation_.size());
        operation_.each([&](std::size_t p) {
            if (plan.counts[p] != 0) of_part[p] = sample_part(p, plan.counts[p], plan.longest);
        });
        operation_.check();
        Samples all;
        for (auto const& key : keys_) all.rows.types.push_back(input_.schema()[key.column].type);
        for (std::size_t const p : operation_.own()) {
            Samples const& some = of_part[p];
            for (device::SplitterValue value : some.rows.values) {
                if (value.size != device::SplitterValue::kNull) {
                    u32 const begin = u32(all.rows.bytes.size());
                    all.rows.bytes.append(some.rows.bytes, value.begin, value.size);
                    value.begin = begin;
                }
                all.rows.values.push_back(value);
            }
            all.weights.insert(all.weights.end(), some.weights.begin(), some.weights.end());
        }
        return all;
    }

    // Texts of a sample have room for the longest one each.
    Samples sample_part(std::size_t p, u64 count, u32 longest) const {
        Place& place = operation_.place(p);
        u64 const rows = input_.rows(p);
        std::vector<u64> sampled;
        for (u64 s = 0; s < count; ++s) sampled.push_back(sampled_row(rows, count, s));
        bool const has_bytes = std::any_of(keys_.begin(), keys_.end(), [](auto const& key) {
            return key.kind == device::OrderKind::Text || key.kind == device::OrderKind::Bytes;
        });
        Compared const part = compared(p);
        SampleArgs args;
        args.batch = part.batch;
        args.layouts = part.layouts;
        args.keys = part.keys;
        args.key_count = u32(keys_.size());
        args.count = count;
        args.longest = has_bytes ? longest : 0;
        u64 const values = count * keys_.size();
        u64 const bytes = values * args.longest;
        Memory const memory = place.allocate(bytes, "samples of texts");
        args.bytes = static_cast<char*>(memory.get());
        std::vector<Memory> keep;
        std::tie(args.rows, args.values) =
            place.upload(keep, sampled, std::vector<device::SplitterValue>(values));
        place.run(0, SampleKeys{}, args);
        Samples samples;
        samples.rows.values = place.download(args.values, values);
        samples.rows.bytes.resize(bytes);
        place.copy_out(samples.rows.bytes.data(), args.bytes, bytes);
        samples.weights.assign(count, double(rows) / double(count));
        return samples;
    }

    void look_at(std::size_t p, Splitters const& splitters, u16* ranges) const {
        if (input_.rows(p) == 0) return;
        Compared const part = compared(p);
        device::RangeTable table = range_table(keys_, splitters);
        table.keys = part.keys;
        std::vector<Memory> keep;
        std::tie(table.values, table.bytes) = operation_.place(p).upload(
            keep, splitters.values,
            std::vector<char>(splitters.bytes.begin(), splitters.bytes.end()));
        operation_.place(p).run(0, FindRanges{}, table, part.batch, part.layouts, ranges);
    }

    Operation& operation_;
    Input const& input_;
    std::vector<SortKey> const& order_;
    std::vector<device::KeyOrder> const keys_;
    std::vector<device::ColumnLayout> const layouts_;
};

}  // namespace mgi::operators::on_gpu
