// The probing side of a join: finds matches a vector at a time and writes them out column by column.
#pragma once

#include <optional>

#include "operators/batch_builder.hpp"
#include "operators/join_build.hpp"

namespace mgi::operators {

// One group's probes into a finished build. Not thread-safe.
class JoinProbe {
public:
    JoinProbe(JoinPlan const& plan, JoinBuild const& build, Run& run)
        : plan_(plan), build_(build), run_(run), no_partner_(plan.row_bytes()) {}

    // Matches rows of the probing side, as its channel carries them; `columns` is moved past them.
    // Throws Error: OutOfMemory for a result beyond its limit, Interrupted after another's failure.
    void probe(ColumnView* columns, u32 rows);
    // Gives out the built rows [first, last) that come alone, once all groups have probed.
    void give_built(u64 first, u64 last);
    // The result so far; call it last.
    std::vector<RecordBatch> finish();

private:
    // Candidates looked at together: enough of them for misses to overlap, few enough for their
    // directory entries, and then their rows, to fit the first-level cache.
    static constexpr u32 kInFlight = 128;
    static constexpr u32 kMatches = 1024;

    // Probing rows and the built rows that may match each: [first, last).
    struct Candidates {
        u32 count = 0;
        u16 row[kInFlight];
        char const* first[kInFlight];
        char const* last[kInFlight];
    };

    void find_candidates(u16 const* selected, u32 count, Candidates& candidates);
    // Whether rows come alone, which costs a little more.
    enum class Gives : u8 { OnlyPairs, Alone };
    template <bool OneWord, Gives kGives>
    void match(ColumnView const* columns, Candidates& candidates);
    void match(ColumnView const* columns, Candidates& candidates);
    // Adds those of a vector's rows that come alone.
    void add_alone(ColumnView const* columns, u32 rows);
    template <bool OneWord>
    [[nodiscard]] bool equal(char const* row, u64 const* words) const;
    // `columns` of built rows alone: null.
    void write_matches(ColumnView const* columns);
    void write(ColumnView const* columns, u32 first, u32 count);
    void start_batch();

    JoinPlan const& plan_;
    JoinBuild const& build_;
    Run& run_;
    u64 checked_ = 0;  // bytes of the open batch when the run was asked whether it goes on
    EncodedKeys keys_;
    u32 match_count_ = 0;
    u16 probing_[kMatches];
    char const* built_[kMatches];
    bool has_partner_[kVector] = {};      // by row of the vector, where rows come alone
    std::vector<char> const no_partner_;  // a built row of nulls
    std::optional<BatchBuilder> builder_;
    std::vector<RecordBatch> results_;
};

}  // namespace mgi::operators
