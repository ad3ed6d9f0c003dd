// Hash join of tables in GPU memory: both sides' rows come to the endpoints that own their keys, then each endpoint
// joins what it has.
#pragma once

#include "operators/gpu/join_codes.hpp"
#include "operators/gpu/move_rows.hpp"

namespace mgi::operators::on_gpu {

// One side of an endpoint's join: the columns that the plan needs of it.
struct JoinSide {
    std::vector<u32> needed;  // which ones of the input
    std::vector<ColumnView> columns;
    u64 rows = 0;
};

// The join of one endpoint's rows.
class JoinPart {
public:
    JoinPart(Operation const& operation, std::size_t e, JoinRules const& rules,
             JoinCodes const& codes, Schema const& schema, std::vector<bool> const& nulls)
        : operation_(operation),
          place_(operation.place(e)),
          rules_(rules),
          codes_(codes),
          schema_(schema),
          nulls_(nulls) {}

    GpuTable run(JoinSide const& left, JoinSide const& right) {
        JoinSide const& built = rules_.roles.build_left ? left : right;
        JoinSide const& probing = rules_.roles.build_left ? right : left;
        UploadedPart const built_part(place_, built.columns, built.rows);
        UploadedPart const probing_part(place_, probing.columns, probing.rows);
        auto const find = [&]<Keys kKeys>(std::integral_constant<Keys, kKeys>) {
            build<kKeys>(built_part.to_send);
            probe<kKeys>(probing_part.to_send);
        };
        switch (codes_.kind()) {
            case Keys::Text: find(std::integral_constant<Keys, Keys::Text>{}); break;
            case Keys::Words: find(std::integral_constant<Keys, Keys::Words>{}); break;
            case Keys::Word: find(std::integral_constant<Keys, Keys::Word>{}); break;
        }
        return write(left, right);
    }

private:
    template <Keys kKeys>
    void build(PartToSend const& rows) {
        u64 const entries = 2 * rows.rows + 64;
        if (entries > 0xfffffff0u) {
            throw Error(ErrorCode::OutOfMemory,
                        operation_.what() + ": " + place_.name() + " would build a table of " +
                            std::to_string(rows.rows) + " rows; use more endpoints");
        }
        JoinTable join;
        join.build = codes_.build;
        join.probe = codes_.probe;
        HashTable& table = join.table;
        u32 const key_words = codes_.build.words + (kKeys == Keys::Words ? 1 : 0);
        table.capacity = u32(entries);
        table.value_offset = 8 * key_words;
        // Of a text, so that an entry lies in one of the memory's sectors.
        table.stride = key_words == 2 ? 32 : 8 * (key_words + 1);
        table.most_probes = table.capacity;
        u64 const bytes = (entries + HashTable::kSpecials) * table.stride;
        table_ = place_.allocate(bytes, "a table of " + std::to_string(rows.rows) + " rows");
        next_ = place_.allocate(rows.rows * 4, "the chains of its keys");
        table.entries = static_cast<char*>(table_.get());
        join.next = static_cast<u32*>(next_.get());
        if (rules_.roles.build != Alone::None) {
            marks_ = place_.allocate(rows.rows, "which of its rows have a partner");
            join.marks = static_cast<u8*>(marks_.get());
            place_.fill(join.marks, 0, rows.rows);
            alone_.marks = join.marks;
            alone_.rows = rows.rows;
            alone_.marked = rules_.roles.build == Alone::Matched;
        }
        std::vector<u64> pattern(table.stride / 8);
        pattern[0] = kKeys == Keys::Words ? HashTable::kEmpty : kNoKey;
        u64* pattern_at = nullptr;
        std::tie(join_, counts_, pattern_at) =
            place_.upload(keep_, std::vector<JoinTable>{join}, std::vector<JoinCounts>(1), pattern);
        place_.run(0, FillEntries{}, reinterpret_cast<u64*>(table.entries), bytes / 8,
                   static_cast<u64 const*>(pattern_at), u32(pattern.size()));
        place_.run(0, BuildTable<kKeys>{}, join_, rows, counts_);
        unique_ = place_.download(counts_, 1)[0].duplicates == 0;
        operation_.check();
    }

    template <Keys kKeys>
    void probe(PartToSend const& rows) {
        heads_ = place_.allocate(rows.rows * 4, "the partners of the probing rows");
        tiles_ = tiles_of(rows.rows);
        args_.join = join_;
        args_.rows = rows;
        args_.unique = unique_;
        args_.pairs = rules_.roles.pairs;
        args_.alone = rules_.roles.probe;
        args_.heads = static_cast<u32*>(heads_.get());
        args_.tile_firsts = static_cast<u64*>(tiles_.get());
        args_.counts = counts_;
        place_.run(FindPartners<kKeys>::scratch_bytes(), FindPartners<kKeys>{}, args_);
        if (alone_.marks != nullptr) {
            alone_tiles_ = tiles_of(alone_.rows);
            alone_.tile_firsts = static_cast<u64*>(alone_tiles_.get());
            alone_.counts = counts_;
            place_.run(CountAlone::scratch_bytes(), CountAlone{}, alone_);
        }
        pairs_ = place_.download(counts_, 1)[0].pairs;
        operation_.check();
        if (pairs_ > kMostGpuRows) {
            throw Error(ErrorCode::OutOfMemory, operation_.what() + ": an endpoint's result has " +
                                                    std::to_string(pairs_) + " rows, more than " +
                                                    std::to_string(kMostGpuRows) +
                                                    "; use more endpoints");
        }
    }

    Memory tiles_of(u64 rows) {
        return place_.allocate((rows / kProbeTile + 1) * 8, "places in the result");
    }

    GpuTable write(JoinSide const& left, JoinSide const& right) {
        table_.reset();
        Memory const memory = place_.allocate(pairs_ * sizeof(Pair), "which rows match");
        Pair* const pairs = static_cast<Pair*>(memory.get());
        place_.run(WritePairs::scratch_bytes(), WritePairs{}, args_, pairs);
        if (alone_.marks != nullptr) {
            place_.run(WriteAlone::scratch_bytes(), WriteAlone{}, alone_, pairs);
        }
        heads_.reset();
        next_.reset();
        marks_.reset();
        OutputTable output(place_, schema_, nulls_, pairs_, "the joined rows");
        std::vector<Gathered> gathered(rules_.columns.size());
        for (bool const of_left : {true, false}) {
            JoinSide const& side = of_left ? left : right;
            std::vector<u32> const& needed = side.needed;
            bool const is_built = of_left == rules_.roles.build_left;
            for (std::size_t c = 0; c < gathered.size(); ++c) {
                u32 const source = rules_.columns[c].source(of_left);
                if (source == JoinedColumn::kNone) continue;
                auto const at = std::find(needed.begin(), needed.end(), source) - needed.begin();
                ColumnView const& from = side.columns[std::size_t(at)];
                (is_built ? gathered[c].built : gathered[c].probing) = from;
                (is_built ? gathered[c].from_built : gathered[c].from_probing) = true;
            }
        }
        auto const columns = output.columns();
        for (std::size_t c = 0; c < gathered.size(); ++c) gathered[c].to = columns[c];
        Gathered const* const at = place_.upload_one(keep_, gathered);
        auto const gather = [&](auto kernel) {
            place_.run(0, kernel, static_cast<Pair const*>(pairs), pairs_, at,
                       u32(gathered.size()));
        };
        if (has_long(schema_)) {
            gather(GatherPairs<true>{});
        } else {
            gather(GatherPairs<false>{});
        }
        return output.finish();
    }

    Operation const& operation_;
    Place& place_;
    JoinRules const& rules_;
    JoinCodes const& codes_;
    Schema const& schema_;
    std::vector<bool> const& nulls_;
    std::vector<Memory> keep_;
    Memory table_;
    Memory next_;
    Memory heads_;
    Memory tiles_;
    Memory marks_;
    Memory alone_tiles_;
    JoinTable const* join_ = nullptr;
    JoinCounts* counts_ = nullptr;
    ProbeArgs args_;
    AloneArgs alone_;
    bool unique_ = false;
    u64 pairs_ = 0;
};

inline std::vector<GpuTable> join_on(Operation& operation, Input const& left, Input const& right,
                                     JoinSpec const& spec) {
    // Characters are counted only once it is known where they go: a side of any is not small, but for those of its keys.
    JoinKeys const keys(operation.what(), left, right, spec, operation.options().hash);
    JoinRules const rules(
        operation.what(), left, right, spec, operation.options().hash, operation.size(),
        [&](bool of_left, u32 column) { return keys.has(of_left, column) ? 0 : u64{1} << 40; });
    JoinRoles const& roles = rules.roles;
    ComparedSide const compared_left(operation, left, rules.keys.compared(true));
    ComparedSide const compared_right(operation, right, rules.keys.compared(false));
    bool const one = operation.size() == 1;  // where nothing moves
    auto const facts_of = [&](ComparedSide const& side) {
        bool const of_left = &side == &compared_left;
        bool const built = of_left == roles.build_left;
        Wanted wanted;
        wanted.keys = side.keys();
        if (!one && !roles.broadcast) wanted.going = Going::ToOwners;
        if (!one && roles.broadcast && built) wanted.going = Going::ToAll;
        wanted.moving = rules.needed(of_left, side.keys());
        return find_facts(operation, side.input(), wanted);
    };
    Facts const left_facts = facts_of(compared_left);
    Facts const right_facts = facts_of(compared_right);
    std::vector<Field> fields;
    std::vector<bool> nulls;
    for (JoinedColumn const& column : rules.columns) {
        fields.push_back(column.field);
        nulls.push_back(column.has_null(rules.shape, rules.keys, [&](bool of_left, u32 of) {
            return (of_left ? left_facts : right_facts).nulls[of];
        }));
    }
    Schema const schema(fields);
    JoinCodes const codes(rules, compared_left, compared_right);

    operation.built_on(roles.built(), roles.broadcast);
    // The rows of a side, by endpoint: those that have come there, or those that stay.
    struct Rows {
        std::vector<Arrived> arrived;
        std::vector<JoinSide> sides;
    };
    auto const rows_of = [&](ComparedSide const& side, Facts const& facts) {
        bool const of_left = &side == &compared_left;
        Input const& input = side.input();
        std::vector<u32> const needed = rules.needed(of_left, side.keys());
        Rows rows;
        rows.sides.resize(operation.size());
        if (facts.going != Going::Nowhere) {
            Moving moving(operation, input, needed, side.keys(), facts);
            rows.arrived = moving.run(of_left ? "join, left" : "join, right");
        }
        for (std::size_t const e : operation.own()) {
            rows.sides[e] =
                facts.going == Going::Nowhere
                    ? JoinSide{needed, input.views(e, needed, facts.nulls), input.rows(e)}
                    : JoinSide{needed, rows.arrived[e].columns, rows.arrived[e].rows};
        }
        return rows;
    };
    Rows right_rows = rows_of(compared_right, right_facts);
    Rows left_rows = rows_of(compared_left, left_facts);
    std::vector<GpuTable> results(operation.size(), no_rows(schema));
    operation.each([&](std::size_t e) {
        JoinPart part(operation, e, rules, codes, schema, nulls);
        results[e] = part.run(left_rows.sides[e], right_rows.sides[e]);
        for (Rows* const rows : {&left_rows, &right_rows}) {
            if (!rows->arrived.empty()) rows->arrived[e] = {};
        }
    });
    operation.end_phase("join");
    return results;
}

inline std::vector<GpuTable> join_on(Operation& operation, std::vector<GpuTable> const& left,
                                     std::vector<GpuTable> const& right, JoinSpec const& spec) {
    return join_on(operation, Input(operation, left, ": left"), Input(operation, right, ": right"),
                   spec);
}

}  // namespace mgi::operators::on_gpu
