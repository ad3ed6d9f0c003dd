#include "operators/sort_gather.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

// Entries that one column after the other is gathered of: they stay in a second-level cache.
constexpr u32 kAtOnce = 4096;
// How far ahead of its use a value is fetched.
constexpr u32 kFetchAhead = 16;

class RowGatherer {
public:
    RowGatherer(Schema const& schema, SortRows const& rows) : schema_(schema), rows_(rows) {}

    void gather(SortEntry const* entries, u32 count, BatchBuilder& to) {
        for (u32 c = 0; c < schema_.size(); ++c) {
            Type const& type = schema_[c].type;
            if (type.id == TypeId::Bool) {
                bits(entries, count, c, to);
            } else if (type.is_variable()) {
                texts(entries, count, c, to);
            } else {
                fixed(entries, count, c, type.row_width(), to);
            }
            if (to.has_valid_bits(c)) validity(entries, count, c, to);
        }
        to.advance(count);
    }

private:
    void bits(SortEntry const* entries, u32 count, u32 c, BatchBuilder& to) const {
        for (u32 i = 0; i < count; ++i) {
            if (bit_at(rows_.column(c, entries[i].batch), entries[i].row)) to.set_bit(c, i);
        }
    }
    void validity(SortEntry const* entries, u32 count, u32 c, BatchBuilder& to) const {
        for (u32 i = 0; i < count; ++i) {
            if (valid_at(rows_.column(c, entries[i].batch), entries[i].row)) to.set_valid(c, i);
        }
    }
    void texts(SortEntry const* entries, u32 count, u32 c, BatchBuilder& to) const {
        for (u32 i = 0; i < count; ++i) {
            RowTexts const texts(rows_.column(c, entries[i].batch), false);
            to.put_row_text(c, i, texts.or_none(entries[i].row));
        }
    }
    void fixed(SortEntry const* entries, u32 count, u32 c, u32 width, BatchBuilder& to) const {
        switch (width) {
            case 1: return fixed<u8>(entries, count, c, to);
            case 2: return fixed<u16>(entries, count, c, to);
            case 4: return fixed<u32>(entries, count, c, to);
            case 8: return fixed<u64>(entries, count, c, to);
            case 16: return fixed<u128>(entries, count, c, to);
            default: break;
        }
        char* out = to.next(c);
        for (u32 i = 0; i < count; ++i, out += width) {
            std::memcpy(out, value(c, entries[i], width), width);
        }
    }
    template <class T>
    void fixed(SortEntry const* entries, u32 count, u32 c, BatchBuilder& to) const {
        char* out = to.next(c);
        for (u32 i = 0; i < count; ++i, out += sizeof(T)) {
            __builtin_prefetch(value(c, entries[std::min(i + kFetchAhead, count - 1)], sizeof(T)));
            std::memcpy(out, value(c, entries[i], sizeof(T)), sizeof(T));
        }
    }
    [[nodiscard]] char const* value(u32 c, SortEntry const& at, u32 width) const {
        ColumnView const& view = rows_.column(c, at.batch);
        return static_cast<char const*>(view.values) + (view.offset + at.row) * width;
    }

    Schema const& schema_;
    SortRows const& rows_;
};

}  // namespace

std::vector<RecordBatch> gather_rows(Schema const& schema, std::vector<bool> const& has_nulls,
                                     SortRows const& rows, SortEntry const* entries, u64 count,
                                     Run& run) {
    std::vector<RecordBatch> batches;
    std::optional<BatchBuilder> builder;
    RowGatherer gatherer(schema, rows);
    for (u64 first = 0; first != count;) {
        if (!builder || builder->room() == 0) {
            BatchRoom room = kFirstRoom;
            if (builder) {
                room = builder->next_room();
                batches.push_back(builder->finish());
            }
            room.rows = u32(std::min<u64>(room.rows, count - first));
            builder.emplace(schema, has_nulls, room, &run.budget());
        }
        u32 const some = u32(std::min<u64>({kAtOnce, builder->room(), count - first}));
        gatherer.gather(entries + first, some, *builder);
        first += some;
        run.check();
    }
    if (builder) batches.push_back(builder->finish());
    return batches;
}

}  // namespace mgi::operators
