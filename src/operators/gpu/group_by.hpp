// Group-by of tables in GPU memory: each endpoint folds rows into a table of its own, where they lie or as
// they arrive.
#pragma once

#include <cmath>
#include <optional>

#include "operators/gpu/group_by_plan.hpp"
#include "operators/gpu/move_rows.hpp"

namespace mgi::operators::on_gpu {

// Half of the entries stay empty, so that few others are looked at.
inline constexpr double kRoom = 2.0;
// Rows of a group, on average over parts, from which on parts are folded before they are sent.
inline constexpr double kFoldsFirst = 3.0;

// How many entries a table for about `keys` has; `bound`: no table needs more.
struct TableSize {
    TableSize(double keys, u64 most_keys)
        : bound(u64(kRoom * double(most_keys)) + 64),
          entries(std::min(bound, u64(kRoom * keys * 1.1) + 4096)) {}
    [[nodiscard]] bool is_bound() const { return entries >= bound; }
    void grow() { entries = std::min(bound, entries * 4); }
    u64 bound;
    u64 entries;
};

// An endpoint's table of groups. `local_bytes`: of scratch for the groups that most rows belong to.
class Groups {
public:
    Groups(Operation const& operation, std::size_t e, GroupPlan const& plan, u32 local_bytes)
        : operation_(operation), place_(operation.place(e)), plan_(plan) {
        args_.code = plan.code();
        args_.states = plan.states();
        args_.local_copies = LocalGroups::copies_for(
            plan.code().words, plan.wide(), std::max(1u, plan.states().words), local_bytes);
        pattern_ = plan.pattern();
        pattern_at_ = place_.upload_one(keep_, pattern_);
        keep_.push_back(place_.allocate(sizeof(GroupCounts), "counters"));
        args_.counts = static_cast<GroupCounts*>(keep_.back().get());
        keep_.push_back(place_.allocate(sizeof(GroupByArgs), "a plan"));
        args_at_ = static_cast<GroupByArgs*>(keep_.back().get());
    }

    // For rows that do not stay: brings the characters of their keys' texts to memory for so many.
    void keep_texts(u64 characters) {
        KeyTexts& texts = args_.texts;
        keep_.push_back(place_.allocate(characters, "the characters of keys"));
        texts.at = static_cast<char*>(keep_.back().get());
        keep_.push_back(place_.allocate(sizeof(u64), "a counter"));
        texts.next = static_cast<u64*>(keep_.back().get());
        texts.end = characters;
    }

    // An empty table.
    void make(TableSize const& size) {
        if (size.entries > 0xfffffff0u) {
            throw Error(ErrorCode::OutOfMemory,
                        operation_.what() + ": " + place_.name() + " would need a table of " +
                            std::to_string(size.entries) +
                            " entries; spread the rows over more endpoints");
        }
        entries_.reset();
        HashTable& table = args_.table;
        table.capacity = u32(size.entries);
        table.stride = plan_.stride();
        table.value_offset = plan_.value_offset();
        // A table of the most that can be is never too full.
        table.most_probes = size.is_bound() ? table.capacity : std::min(table.capacity, 512u);
        u64 const bytes = (size.entries + HashTable::kSpecials) * table.stride;
        entries_ = place_.allocate(bytes, "a table of " + std::to_string(size.entries) + " groups");
        table.entries = static_cast<char*>(entries_.get());
        place_.copy_in(args_at_, &args_, sizeof(args_));
        place_.run(0, FillEntries{}, static_cast<u64*>(entries_.get()), bytes / 8, pattern_at_,
                   u32(pattern_.size()));
        place_.fill(args_.counts, 0, sizeof(GroupCounts));
        if (args_.texts.next != nullptr) place_.fill(args_.texts.next, 0, sizeof(u64));
    }

    [[nodiscard]] GroupByArgs const& args() const { return args_; }
    // In the place's memory.
    [[nodiscard]] GroupByArgs const* uploaded() const { return args_at_; }
    // Once all rows are folded.
    [[nodiscard]] GroupCounts counts() { return place_.download(args_.counts, 1)[0]; }

    GpuTable write(u64 groups) {
        if (groups > kMostRows) {
            refuse(operation_.what(), "more than " + std::to_string(kMostRows) +
                                          " groups at an endpoint; use more endpoints");
        }
        OutputTable output(place_, plan_.schema(), plan_.nulls(), groups, "the groups");
        std::vector<Memory> keep;
        WriteArgs write;
        write.code = args_.code;
        write.table = args_.table;
        write.wide = plan_.wide();
        write.columns = output.uploaded();
        write.count = u32(plan_.results().size());
        std::tie(write.results, write.cursor, write.overflows) = place_.upload(
            keep, plan_.results(), std::vector<u64>{0}, std::vector<u32>(write.count));
        WriteArgs const* const write_at = place_.upload_one(keep, std::vector<WriteArgs>{write});
        place_.run(WriteGroups::scratch_bytes(), WriteGroups{}, write_at);
        GpuTable table = output.finish();
        auto const overflows = place_.download(write.overflows, write.count);
        for (u32 r = 0; r < write.count; ++r) {
            if (overflows[r] == 0) continue;
            refuse(operation_.what(), "a sum of column '" + plan_.sources()[r] +
                                          "' does not fit int64; cast it to float64");
        }
        entries_.reset();
        return table;
    }

private:
    Operation const& operation_;
    Place& place_;
    GroupPlan const& plan_;
    GroupByArgs args_;
    GroupByArgs* args_at_ = nullptr;
    std::vector<u64> pattern_;
    u64 const* pattern_at_ = nullptr;
    std::vector<Memory> keep_;
    Memory entries_;
};

// Groups of rows of which the plan's columns lie at an endpoint, by that alone. `keys`: how many differ, about.
inline GpuTable group_part(Operation const& operation, std::size_t e,
                           std::vector<ColumnView> const& columns, u64 rows, GroupPlan const& plan,
                           double keys) {
    Place& place = operation.place(e);
    UploadedPart const part(place, columns, rows);
    Groups groups(operation, e, plan, keys * 2 < double(rows) ? LocalGroups::kMostBytes : 0);
    for (TableSize size(keys, rows);; size.grow()) {
        operation.check();
        groups.make(size);
        u32 const scratch = group_by_scratch(groups.args(), plan.wide(), part.to_send.column_count);
        if (plan.wide()) {
            place.run(scratch, FoldPart<true>{}, groups.uploaded(), part.to_send);
        } else {
            place.run(scratch, FoldPart<false>{}, groups.uploaded(), part.to_send);
        }
        GroupCounts const counts = groups.counts();
        if (counts.overfull == 0) return groups.write(counts.groups);
    }
}

// Groups of a part.
inline GpuTable group_where_it_lies(Operation const& operation, std::size_t e, Input const& input,
                                    GroupPlan const& plan, Facts const& facts) {
    return group_part(operation, e, input.views(e, plan.columns(), facts.nulls), input.rows(e),
                      plan, facts.keys_of_part[e]);
}

// How many of so many keys fall to an endpoint: some get more than others.
inline double share_of(double keys, std::size_t endpoints) {
    double const share = keys / double(endpoints);
    return share + 4 * std::sqrt(share);
}

// Groups of all rows, which are exchanged first; none where there is no room for them in some process.
inline std::optional<std::vector<GpuTable>> group_moved(Operation& operation, Input const& input,
                                                        std::vector<u32> const& keys,
                                                        GroupPlan const& plan, Facts const& facts) {
    std::vector<Arrived> moved;
    {
        Moving moving(operation, input, plan.columns(), keys, facts);
        bool full = false;
        try {
            moving.make_room();
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
            full = true;
        }
        if (operation.in_any(full)) return std::nullopt;
        moved = moving.run("group_by");
    }
    std::vector<GpuTable> results(operation.size(), no_rows(plan.schema()));
    operation.each([&](std::size_t e) {
        results[e] = group_part(operation, e, moved[e].columns, moved[e].rows, plan,
                                share_of(facts.keys, operation.size()));
        moved[e] = {};
    });
    operation.end_phase("fold");
    return results;
}

inline bool has_texts(Input const& input, std::vector<u32> const& columns) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](u32 c) { return input.schema()[c].type.is_variable(); });
}

// Groups of all rows, which are folded as they come to the endpoints that own their keys.
inline std::vector<GpuTable> group_arriving(Operation& operation, Input const& input,
                                            std::vector<u32> const& keys, GroupPlan const& plan,
                                            Facts const& facts) {
    std::vector<Field> fields;
    std::vector<std::string> names;
    for (u32 const c : plan.columns()) {
        fields.push_back(input.schema()[c]);
        fields.back().nullable = facts.nulls[c];
    }
    for (u32 const key : keys) names.push_back(input.schema()[key].name);
    struct Folding {
        UploadedPart part;
        std::unique_ptr<Groups> groups;
    };
    std::map<std::size_t, Folding> folding;
    u32 const columns = u32(plan.columns().size());
    bool const texts = has_texts(input, keys);
    bool const repeat = !texts && facts.keys * 2 < double(input.rows());
    for (std::size_t const e : operation.own()) {
        UploadedPart part(operation.place(e), input.views(e, plan.columns(), facts.nulls),
                          input.rows(e));
        auto groups = std::make_unique<Groups>(operation, e, plan,
                                               repeat ? LocalGroups::kMostBesideChannel : 0);
        if (texts) {
            auto const characters = facts.characters_for(keys, e);
            groups->keep_texts(std::accumulate(characters.begin(), characters.end(), u64{0}));
        }
        folding.emplace(e, Folding{std::move(part), std::move(groups)});
    }
    GroupByArgs const& any = folding.begin()->second.groups->args();
    for (TableSize size(share_of(facts.keys, operation.size()), input.rows());; size.grow()) {
        for (auto const& at : folding) at.second.groups->make(size);
        Channel const channel = operation.open("group_by", Schema(fields), names, input.rows());
        u32 const scratch = group_by_scratch(any, plan.wide(), 2 * columns);
        auto const args_of = [&](std::size_t e) {
            Folding const& here = folding.at(e);
            return std::make_tuple(here.groups->uploaded(), here.part.to_send);
        };
        if (plan.wide()) {
            operation.run<FoldArriving<true>>(channel, scratch, args_of);
        } else {
            operation.run<FoldArriving<false>>(channel, scratch, args_of);
        }
        operation.close();
        std::map<std::size_t, GroupCounts> counts;
        bool overfull = false;
        for (auto const& [e, here] : folding) {
            counts[e] = here.groups->counts();
            overfull = overfull || counts[e].overfull != 0;
        }
        if (operation.in_any(overfull)) continue;
        std::vector<GpuTable> results(operation.size(), no_rows(plan.schema()));
        operation.each(
            [&](std::size_t e) { results[e] = folding.at(e).groups->write(counts.at(e).groups); });
        operation.end_phase("exchange");
        return results;
    }
}

// One or the other: the first where rows were counted for their endpoints, and there is room.
inline std::vector<GpuTable> group_moving(Operation& operation, Input const& input,
                                          std::vector<u32> const& keys, GroupPlan const& plan,
                                          Facts const& facts) {
    bool counted = !facts.rows_of_part_for.empty();
    for (std::size_t e = 0; e < operation.size(); ++e) {
        counted = counted && facts.rows_for(e) <= kMostRows;
    }
    if (counted) {
        try {
            auto results = group_moved(operation, input, keys, plan, facts);
            if (results) return std::move(*results);
        } catch (Error const& error) {
            // A table for which there is no room: other processes do not know of it.
            if (error.code() != ErrorCode::OutOfMemory || !operation.alone()) throw;
        }
        operation.count_anew();
        // Those that arrive through a channel take less, but of the GPUs' memory, not of what was kept.
        for (std::size_t const e : operation.own()) operation.place(e).trim();
        if (!operation.alone()) operation.drop_windows();
    }
    return group_arriving(operation, input, keys, plan, facts);
}

// A group-by in two steps: of each part, and of the groups that come of them, whose columns are the keys and
// then a column for each state of `partial`. Each state travels once, so that the second step needs no more of them
// than a group-by in one step.
struct TwoSteps {
    TwoSteps(std::vector<Item> const& items, std::vector<std::string> const& keys,
             Facts const& facts)
        : keys_(u32(keys.size())) {
        for (std::string const& key : keys) longer_ += key + " ";
        for (Item const& item : items) {
            using F = AggregateFunction;
            bool const nulls = item.column != Item::kNoColumn && facts.nulls[item.column];
            Item merged = item;
            // Of a column without nulls rows are counted.
            u32 const counted = nulls ? item.column : Item::kNoColumn;
            if (item.function == F::Count) {
                merged.function = F::Sum;
                merged.column = column_of(F::Count, counted);
            } else {
                bool const average = item.function == F::Avg;
                merged.column = column_of(average ? F::Sum : item.function, item.column);
                if (average || nulls) merged.counts = column_of(F::Count, counted);
            }
            merging.push_back(merged);
        }
    }

    std::vector<Item> partial;
    std::vector<Item> merging;

private:
    u32 column_of(AggregateFunction function, u32 column) {
        std::size_t p = 0;
        while (p < partial.size() &&
               (partial[p].function != function || partial[p].column != column)) {
            ++p;
        }
        if (p == partial.size()) {
            partial.push_back({function, column, Item::kNoColumn, longer_ + std::to_string(p)});
        }
        return keys_ + u32(p);
    }

    u32 const keys_;
    std::string longer_;  // than any key's name
};

inline std::vector<GpuTable> group_by_on(Operation& operation, std::vector<GpuTable> const& parts,
                                         std::vector<std::string> const& key_names,
                                         std::vector<Aggregate> const& aggregates) {
    Input const input(operation, parts);
    Wanted wanted;
    wanted.keys = input.columns(key_names);
    check_keys(input, wanted.keys, operation.options().hash);
    std::vector<Item> const items = items_of(input, aggregates);
    wanted.magnitudes = magnitudes_wanted(input, items);
    wanted.sketch = true;
    wanted.rows_for = operation.size() > 1 && operation.size() <= Survey::kMostDestinations &&
                      (operation.places_rows() || has_texts(input, wanted.keys));
    wanted.moving = wanted.keys;
    for (Item const& item : items) {
        bool const there = std::find(wanted.moving.begin(), wanted.moving.end(), item.column) !=
                           wanted.moving.end();
        if (item.column != Item::kNoColumn && !there) wanted.moving.push_back(item.column);
    }
    Facts const facts = find_facts(operation, input, wanted);
    GroupPlan const plan(input, wanted.keys, items, facts);
    if (operation.size() == 1) {
        GpuTable result = group_where_it_lies(operation, 0, input, plan, facts);
        operation.end_phase("fold");
        return {result};
    }

    double keys_of_parts = 0;
    for (double const keys : facts.keys_of_part) keys_of_parts += keys;
    if (!plan.narrow() || keys_of_parts * kFoldsFirst > double(input.rows())) {
        return group_moving(operation, input, wanted.keys, plan, facts);
    }
    // Each key is there often: its rows are folded where they lie, and only the groups are sent.
    TwoSteps const steps(items, key_names, facts);
    GroupPlan const partial(input, wanted.keys, steps.partial, facts);
    std::vector<GpuTable> folded(operation.size(), no_rows(partial.schema()));
    operation.each([&](std::size_t e) {
        folded[e] = group_where_it_lies(operation, e, input, partial, facts);
    });
    operation.end_phase("fold");
    Input const groups(operation, folded);
    std::vector<u32> const keys = groups.columns(key_names);
    Facts known;
    known.magnitudes.resize(groups.schema().size());
    if (wanted.rows_for) {
        Wanted counts;
        counts.keys = keys;
        counts.rows_for = true;
        counts.moving = keys;
        known = find_facts(operation, groups, counts);
    }
    // All else that a survey would find is known: the keys are the same, and where no sum leaves 64 bits no sum of sums does.
    known.nulls = partial.nulls();
    known.keys = facts.keys;
    GroupPlan const merged(groups, keys, steps.merging, known);
    std::vector<GpuTable> results = group_moving(operation, groups, keys, merged, known);
    for (GpuTable& result : results) result.schema = plan.schema();
    return results;
}

}  // namespace mgi::operators::on_gpu
