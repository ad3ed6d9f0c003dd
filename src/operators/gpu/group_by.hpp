// Group-by of tables in GPU memory: each endpoint folds rows into a table of its own, where they lie or as
// they arrive.
#pragma once

#include <cmath>
#include <numeric>
#include <optional>

#include "operators/gpu/groups.hpp"
#include "operators/gpu/move_rows.hpp"

namespace mgi::operators::on_gpu {

// Rows of a group, on average over parts, from which on parts are folded before they are sent.
inline constexpr double kFoldsFirst = 3.0;

// Groups of rows of which the plan's columns lie at an endpoint, by that alone. `keys`: how many differ, about.
inline GpuTable group_part(Operation const& operation, std::size_t e,
                           std::vector<ColumnView> const& columns, u64 rows, GroupPlan const& plan,
                           double keys) {
    Place& place = operation.place(e);
    UploadedPart const part(place, columns, rows);
    Groups groups(operation, e, plan, keys * 2 < double(rows) ? LocalGroups::kMostBytes : 0);
    groups.find_fronts(part.to_send);
    for (TableSize size(keys, rows);; size.grow()) {
        operation.check();
        groups.make(size);
        groups.fold(part.to_send);
        GroupCounts const counts = groups.counts();
        if (counts.overfull == 0) return groups.write(counts.groups, part.to_send.columns);
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
            if (error.code() != ErrorCode::OutOfMemory || plan.keeps_rows()) throw;
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

inline std::vector<u32> texts_among(Input const& input, std::vector<u32> const& columns) {
    std::vector<u32> texts;
    for (u32 const c : columns) {
        if (input.schema()[c].type.is_variable()) texts.push_back(c);
    }
    return texts;
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
    std::vector<u32> const texts = texts_among(input, plan.keys());
    bool const repeat = texts.empty() && facts.keys * 2 < double(input.rows());
    for (std::size_t const e : operation.own()) {
        UploadedPart part(operation.place(e), input.views(e, plan.columns(), facts.nulls),
                          input.rows(e));
        auto groups = std::make_unique<Groups>(operation, e, plan,
                                               repeat ? LocalGroups::kMostBesideChannel : 0);
        if (!texts.empty() && facts.texts.empty()) {
            refuse(operation.what(), "at most " + std::to_string(Survey::kMostDestinations) +
                                         " endpoints on GPUs for keys of texts, not " +
                                         std::to_string(operation.size()));
        }
        if (!texts.empty()) {
            auto const characters = facts.characters_for(texts, e);
            groups->keep_texts(std::accumulate(characters.begin(), characters.end(), u64{0}));
        }
        folding.emplace(e, Folding{std::move(part), std::move(groups)});
    }
    GroupByArgs const& any = folding.begin()->second.groups->args();
    for (TableSize size(share_of(facts.keys, operation.size()), input.rows());; size.grow()) {
        for (auto const& at : folding) at.second.groups->make(size);
        Channel const channel =
            operation.open("group_by", Schema(fields), operation.partition(names), input.rows(),
                           facts.text_needs(input.rows()));
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

// One or the other: the first where rows were counted for their endpoints, and there is room, or rows have to stay.
inline std::vector<GpuTable> group_moving(Operation& operation, Input const& input,
                                          std::vector<u32> const& keys, GroupPlan const& plan,
                                          Facts const& facts) {
    if (plan.keeps_rows()) {
        if (facts.rows_of_part_for.empty()) {
            refuse(operation.what(), "at most " + std::to_string(Survey::kMostDestinations) +
                                         " endpoints on GPUs for min, max and first of values "
                                         "longer than 64 bits, not " +
                                         std::to_string(operation.size()));
        }
        return *group_moved(operation, input, keys, plan, facts);
    }
    bool counted = !facts.rows_of_part_for.empty();
    for (std::size_t e = 0; e < operation.size(); ++e) {
        counted = counted && facts.rows_for(e) <= kMostGpuRows;
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
// than a group-by in one step. What is counted in tables of pairs is there in the second step only.
struct TwoSteps {
    // `wide`: sums of integers are decimals in between, since those of many parts need not fit 64 bits, and sums of decimals are
    // three words.
    TwoSteps(InputColumns const& input, std::vector<u32> const& keys,
             std::vector<Item> const& items, std::vector<bool> const& has_nulls, bool wide = false)
        : input_(input), keys_(u32(keys.size())), wide_(wide) {
        for (u32 const key : keys) longer_ += input.schema()[key].name + " ";
        for (Item const& item : items) {
            using F = AggregateFunction;
            bool const nulls = item.column != Item::kNoColumn && has_nulls[item.column];
            Item merged = item;
            if (item.column != Item::kNoColumn) merged.source = input.schema()[item.column].name;
            // Of a column without nulls rows are counted.
            u32 const counted = nulls ? item.column : Item::kNoColumn;
            if (item.function == F::Count) {
                merged.function = F::Sum;
                merged.column = column_of(F::Count, counted);
            } else if (item.function == F::CountDistinct) {
                bool const key = item.pairs == Item::kNoColumn;
                merged.column = key ? place_among(keys, item.column) : Item::kNoColumn;
            } else if (is_variance(item.function)) {
                merged.of_words = true;
                merged.column = columns_of(F::Variance, item.column, kMomentWords);
            } else {
                bool const average = item.function == F::Avg;
                bool const words = is_sum(item) && in_words(item.column);
                merged.of_words = words;
                merged.column = words ? columns_of(F::Sum, item.column, kLongSumWords)
                                      : column_of(average ? F::Sum : item.function, item.column);
                bool const says_null = always_names_rows(item, input.schema()[item.column].type);
                if (average || (nulls && !says_null)) merged.counts = column_of(F::Count, counted);
            }
            merging.push_back(merged);
        }
    }

    std::vector<Item> partial;
    std::vector<Item> merging;

private:
    // Whether sums of a column are three words in between, since those of a part need not fit 38 digits.
    [[nodiscard]] bool in_words(u32 column) const {
        return wide_ && input_.schema()[column].type.id == TypeId::Decimal128;
    }
    // The first of so many that come one after the other.
    u32 columns_of(AggregateFunction function, u32 column, u32 words) {
        u32 const first = column_of(function, column, 0);
        for (u32 w = 1; w < words; ++w) (void)column_of(function, column, w);
        return first;
    }
    u32 column_of(AggregateFunction function, u32 column, u32 word = Item::kNoColumn) {
        std::size_t p = 0;
        while (p < partial.size() && (partial[p].function != function ||
                                      partial[p].column != column || partial[p].word != word)) {
            ++p;
        }
        if (p == partial.size()) {
            bool const rows = column == Item::kNoColumn;
            Field const* const source = rows ? nullptr : &input_.schema()[column];
            Item item;
            item.function = function;
            item.column = column;
            item.word = word;
            item.field = aggregated(
                input_.what(), {function, rows ? "" : source->name, longer_ + std::to_string(p)},
                source);
            bool const sum = function == AggregateFunction::Sum;
            // Of moments the first says how many values there are.
            if (word == 0 || (sum && word != Item::kNoColumn)) item.field.type = int64();
            if (sum && wide_ && source->type.is_integer()) item.field.type = decimal128(38, 0);
            partial.push_back(item);
        }
        return keys_ + u32(p);
    }

    InputColumns const& input_;
    u32 const keys_;
    bool const wide_;
    std::string longer_;  // than any key's name
};

// A group-by of all rows of an input. Groups come to the endpoints that own the first `routed` of their keys.
class Grouping {
public:
    // `pairs` are made before it runs. `on_rows`: it runs on rows, not on pairs alone.
    Grouping(Operation& operation, Input const& input, std::vector<u32> keys, std::size_t routed,
             std::vector<Item> const& items, std::vector<Pairs> const& pairs, bool on_rows = true)
        : operation_(operation),
          input_(input),
          keys_(std::move(keys)),
          routed_(routed),
          items_(items),
          pairs_(pairs),
          facts_(find_facts(operation, input, wanted(on_rows))),
          plan_(input, keys_, items, facts_, &pairs) {}

    [[nodiscard]] Schema const& schema() const { return plan_.schema(); }

    std::vector<GpuTable> run() {
        if (operation_.size() == 1) return run_parts();
        double keys_of_parts = 0;
        for (double const keys : facts_.keys_of_part) keys_of_parts += keys;
        if (!plan_.narrow() || keys_of_parts * kFoldsFirst > double(input_.rows())) {
            return run_moving();
        }
        // Each key is there often: its rows are folded where they lie, and only the groups are sent.
        TwoSteps const steps(input_, keys_, items_, facts_.nulls);
        GroupPlan const partial(input_, keys_, steps.partial, facts_);
        std::vector<GpuTable> folded = group_parts(input_, partial, facts_);
        Input const groups(operation_, folded);
        // All else that a survey would find is known: the keys are the same, and where no sum leaves 64 bits no sum of sums does.
        Facts known = known_of(groups, steps.partial);
        known.nulls = partial.nulls();
        known.keys = facts_.keys;
        GroupPlan const merged(groups, first_columns(), steps.merging, known, &pairs_);
        count_rows(known, groups, routes(first_columns()), merged);
        return group_moving(operation_, groups, routes(first_columns()), merged, known);
    }

    // The groups of each endpoint's own rows, where these lie.
    std::vector<GpuTable> run_parts() { return group_parts(input_, plan_, facts_); }

    // Whose rows are moved as they are, and not folded before.
    std::vector<GpuTable> run_moving() {
        if (operation_.size() == 1) return run_parts();
        if (facts_.rows_of_part_for.empty()) {
            count_rows(facts_, input_, routes(keys_), plan_);
        }
        return group_moving(operation_, input_, routes(keys_), plan_, facts_);
    }

    // Where rows say no more than tables of pairs, which are at their groups' endpoints already.
    std::vector<GpuTable> run_on_pairs() {
        Input const rows(operation_, pairs_[0]);
        Facts known = known_of(rows, {});
        for (u32 const key : keys_) known.nulls.push_back(facts_.nulls[key]);
        known.nulls.push_back(false);  // of values, which are counted elsewhere
        known.keys_of_part.assign(operation_.size(), share_of(facts_.keys, operation_.size()));
        TwoSteps const steps(input_, keys_, items_, facts_.nulls);
        GroupPlan const plan(rows, first_columns(), steps.merging, known, &pairs_);
        return group_parts(rows, plan, known);
    }

private:
    [[nodiscard]] Wanted wanted(bool on_rows) const {
        Wanted wanted;
        wanted.keys = keys_;
        wanted.magnitudes = magnitudes_wanted(input_, items_);
        wanted.sketch = true;
        bool stay = false;
        for (Item const& item : items_) {
            bool const rows = item.column == Item::kNoColumn;
            stay = stay || (!rows && always_names_rows(item, input_.schema()[item.column].type));
        }
        bool const counts = on_rows && counts_rows(stay) && routed_ == keys_.size();
        if (counts) wanted.going = Going::ToOwners;
        wanted.moving = keys_;
        for (Item const& item : items_) {
            bool const there = place_among(wanted.moving, item.column) != wanted.moving.size();
            if (item.column != Item::kNoColumn && !there) wanted.moving.push_back(item.column);
        }
        return wanted;
    }
    // Whether rows are counted for their endpoints before they go, and their characters. `stay`: states name rows.
    [[nodiscard]] bool counts_rows(bool stay) const {
        return operation_.size() > 1 && operation_.size() <= Survey::kMostDestinations &&
               (operation_.places_rows() || stay || !texts_among(input_, keys_).empty());
    }
    // Adds to the facts how many rows each endpoint gets, by the keys that own them, and how many characters of the plan's columns.
    void count_rows(Facts& facts, Input const& rows, std::vector<u32> const& owning,
                    GroupPlan const& plan) const {
        if (!counts_rows(plan.keeps_rows())) return;
        Wanted wanted;
        wanted.keys = owning;
        wanted.going = Going::ToOwners;
        wanted.moving = plan.columns();
        Facts counted = find_facts(operation_, rows, wanted);
        facts.going = counted.going;
        facts.rows_of_part_for = std::move(counted.rows_of_part_for);
        facts.texts = std::move(counted.texts);
        facts.characters_of_part_for = std::move(counted.characters_of_part_for);
    }
    // How large numbers are among the groups of a part, of which only extremes are as large as those of rows.
    [[nodiscard]] Facts known_of(Input const& groups, std::vector<Item> const& partial) const {
        Facts known;
        known.magnitudes.resize(groups.schema().size());
        known.uppers.resize(groups.schema().size());
        for (std::size_t p = 0; p < partial.size(); ++p) {
            Item const& item = partial[p];
            bool const extreme =
                item.function == AggregateFunction::Min || item.function == AggregateFunction::Max;
            if (!extreme) continue;
            known.magnitudes[keys_.size() + p] = facts_.magnitudes[item.column];
            known.uppers[keys_.size() + p] = facts_.uppers[item.column];
        }
        return known;
    }
    [[nodiscard]] std::vector<u32> routes(std::vector<u32> keys) const {
        keys.resize(routed_);
        return keys;
    }
    // Keys of the groups of a part.
    [[nodiscard]] std::vector<u32> first_columns() const {
        std::vector<u32> columns(keys_.size());
        std::iota(columns.begin(), columns.end(), 0u);
        return columns;
    }
    std::vector<GpuTable> group_parts(Input const& input, GroupPlan const& plan,
                                      Facts const& facts) const {
        std::vector<GpuTable> results(operation_.size(), no_rows(plan.schema()));
        operation_.each([&](std::size_t e) {
            results[e] = group_where_it_lies(operation_, e, input, plan, facts);
        });
        operation_.end_phase("fold");
        return results;
    }

    Operation& operation_;
    Input const& input_;
    std::vector<u32> const keys_;
    std::size_t const routed_;
    std::vector<Item> const& items_;
    std::vector<Pairs> const& pairs_;
    Facts facts_;
    GroupPlan const plan_;
};

inline std::vector<GpuTable> group_by_on(Operation& operation, Input const& input,
                                         std::vector<std::string> const& key_names,
                                         std::vector<Aggregate> const& aggregates) {
    std::vector<u32> const keys = input.columns(key_names);
    check_keys(input, keys, operation.options().hash);
    Items const items(input, keys, aggregates);
    if (!items.distinct.empty() && keys.size() == kMostKeys) {
        refuse(operation.what(),
               "count_distinct of column '" + input.schema()[items.distinct[0]].name + "' beside " +
                   std::to_string(keys.size()) + " key columns; on GPUs at most " +
                   std::to_string(kMostKeys - 1));
    }
    std::vector<Pairs> pairs;
    Grouping grouping(operation, input, keys, keys.size(), items.all, pairs, items.want_rows());
    for (u32 const column : items.distinct) {
        std::vector<u32> both = keys;
        both.push_back(column);
        pairs.push_back(Grouping(operation, input, both, keys.size(), {}, {}).run());
    }
    auto results = items.want_rows() ? grouping.run() : grouping.run_on_pairs();
    for (GpuTable& result : results) result.schema = grouping.schema();
    return results;
}

inline std::vector<GpuTable> group_by_on(Operation& operation, std::vector<GpuTable> const& parts,
                                         std::vector<std::string> const& keys,
                                         std::vector<Aggregate> const& aggregates) {
    return group_by_on(operation, Input(operation, parts), keys, aggregates);
}

}  // namespace mgi::operators::on_gpu
