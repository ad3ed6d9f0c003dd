// An endpoint's table of groups.
#pragma once

#include "operators/gpu/group_by_plan.hpp"
#include "operators/gpu/move_rows.hpp"

namespace mgi::operators::on_gpu {

// Half of the entries stay empty, so that few others are looked at.
inline constexpr double kRoom = 2.0;
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
        : operation_(operation), place_(operation.place(e)), e_(e), plan_(plan) {
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

    // For states that name rows: finds the fronts of all rows, before `make`.
    void find_fronts(PartToSend const& part) {
        States& states = args_.states;
        for (u32 s = 0; s < states.count; ++s) {
            State& state = states.all[s];
            if (!names_row(state.fold)) continue;
            State const* const same = std::find_if(states.all, &state, [&](State const& other) {
                return names_row(other.fold) && other.column == state.column;
            });
            if (same != &state) {
                state.fronts = same->fronts;
                continue;
            }
            u32* const fronts = new_words(part.rows, "the fronts of values");
            u32* common = nullptr;
            if (!state.is_decimal()) {
                common = new_words(1, "a counter");
                place_.fill(common, 0xff, sizeof(u32));
                place_.run(0, FindCommon{}, state, part.columns, part.rows, common);
            }
            place_.run(0, WriteFronts{}, state, part.columns, part.rows, common, fronts);
            state.fronts = fronts;
        }
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
    // Rows where they lie.
    void fold(PartToSend const& part) { fold(args_, args_at_, part); }
    // Once all rows are folded.
    [[nodiscard]] GroupCounts counts() { return place_.download(args_.counts, 1)[0]; }

    // `part`: the columns of the rows that states name, in the place's memory.
    GpuTable write(u64 groups, ColumnView const* part = nullptr) {
        if (groups > kMostGpuRows) {
            refuse(operation_.what(), "more than " + std::to_string(kMostGpuRows) +
                                          " groups at an endpoint; use more endpoints");
        }
        OutputTable output(place_, plan_.schema(), plan_.nulls(), groups, "the groups");
        std::vector<Memory> keep;
        for (std::size_t p = 0; p < plan_.pair_counts().size(); ++p) count_pairs(p, keep);
        WriteArgs write;
        write.code = args_.code;
        write.table = args_.table;
        write.wide = plan_.wide();
        write.columns = output.uploaded();
        write.count = u32(plan_.results().size());
        write.rows = groups;
        std::tie(write.results, write.cursor, write.overflows) = place_.upload(
            keep, plan_.results(), std::vector<u64>{0}, std::vector<u32>(write.count));
        write.part = part;
        WriteArgs const* const write_at = place_.upload_one(keep, std::vector<WriteArgs>{write});
        auto const run = [&](auto kernel) {
            place_.run(decltype(kernel)::scratch_bytes(), kernel, write_at);
        };
        plan_.keeps_rows() ? run(WriteGroups<true>{}) : run(WriteGroups<false>{});
        check_written(groups, write.cursor);
        GpuTable table = output.finish();
        auto const overflows = place_.download(write.overflows, write.count);
        for (u32 r = 0; r < write.count; ++r) {
            if (overflows[r] == 0) continue;
            bool const decimal = is_wide(plan_.schema()[r].type);
            refuse(operation_.what(), "a sum of column '" + plan_.sources()[r] + "' does not fit " +
                                          (decimal ? "38 digits" : "int64") +
                                          "; cast it to float64");
        }
        entries_.reset();
        return table;
    }

private:
    u32* new_words(u64 count, std::string const& what) {
        keep_.push_back(place_.allocate(count * sizeof(u32), what));
        return static_cast<u32*>(keep_.back().get());
    }

    void fold(GroupByArgs const& args, GroupByArgs const* at, PartToSend const& part) {
        u32 const scratch = group_by_scratch(args, plan_.wide(), part.column_count);
        auto const run = [&](auto kernel) { place_.run(scratch, kernel, at, part); };
        using Kinds = StateKinds;
        bool const wide = plan_.wide();
        switch (args.states.kinds) {
            case Kinds::Common:
                return wide ? run(FoldPart<true, Kinds::Common>{})
                            : run(FoldPart<false, Kinds::Common>{});
            case Kinds::Rare:
                return wide ? run(FoldPart<true, Kinds::Rare>{})
                            : run(FoldPart<false, Kinds::Rare>{});
            case Kinds::Rows: return wide ? run(FoldRows<true>{}) : run(FoldRows<false>{});
        }
    }

    // Pairs are counted into groups that there are already, unless somebody writes into the keys.
    void check_written(u64 groups, u64 const* cursor) {
        if (plan_.pair_counts().empty()) return;
        if (place_.download(cursor, 1)[0] == groups && counts().overfull == 0) return;
        refuse(operation_.what(),
               "keys of the part at endpoint " + std::to_string(e_) +
                   " changed while its different values were counted; let nobody "
                   "write into the columns until the call has returned");
    }

    // Counts the values in a table of pairs, whose keys all have an entry.
    void count_pairs(std::size_t p, std::vector<Memory>& keep) {
        GpuTable const& pairs = plan_.pairs()[p][e_];
        if (pairs.rows == 0) return;
        State count;
        count.fold = Fold::CountValid;
        count.column = u32(plan_.keys().size());  // behind the keys
        count.place = plan_.pair_counts()[p];
        GroupByArgs args = args_;
        args.states.all[0] = count;
        args.states.count = 1;
        args.states.kinds = StateKinds::Common;
        UploadedPart part(place_, views_of(pairs), u64(pairs.rows));
        GroupByArgs const* const at = place_.upload_one(keep, std::vector<GroupByArgs>{args});
        fold(args, at, part.to_send);
        keep.insert(keep.end(), part.keep.begin(), part.keep.end());
    }

    Operation const& operation_;
    Place& place_;
    std::size_t e_;
    GroupPlan const& plan_;
    GroupByArgs args_;
    GroupByArgs* args_at_ = nullptr;
    std::vector<u64> pattern_;
    u64 const* pattern_at_ = nullptr;
    std::vector<Memory> keep_;
    Memory entries_;
};

}  // namespace mgi::operators::on_gpu
