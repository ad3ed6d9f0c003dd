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
        : plan_(plan), build_(build), run_(run) {}

    // Matches rows of the left side, as its channel carries them; `columns` is moved past them.
    // Throws Error: OutOfMemory for a result beyond its limit, Interrupted after another's failure.
    void probe(ColumnView* columns, u32 rows);
    // The result so far; call it last.
    std::vector<RecordBatch> finish();

private:
    // Candidates looked at together: enough of them for misses to overlap, few enough for their
    // directory entries, and then their rows, to fit the first-level cache.
    static constexpr u32 kInFlight = 128;
    static constexpr u32 kMatches = 1024;

    // Left rows and the rows that may match each: [first, last).
    struct Candidates {
        u32 count = 0;
        u16 row[kInFlight];
        char const* first[kInFlight];
        char const* last[kInFlight];
    };

    void find_candidates(u16 const* selected, u32 count, Candidates& candidates);
    template <bool OneWord>
    void match(ColumnView const* columns, Candidates& candidates);
    template <bool OneWord>
    [[nodiscard]] bool equal(char const* row, u64 const* words) const;
    void write_matches(ColumnView const* columns);
    void write(ColumnView const* columns, u32 first, u32 count);
    void start_batch();

    JoinPlan const& plan_;
    JoinBuild const& build_;
    Run& run_;
    u64 counted_ = 0;  // bytes of the open batch that the budget knows of
    EncodedKeys keys_;
    u32 match_count_ = 0;
    u16 left_[kMatches];
    char const* right_[kMatches];
    std::optional<BatchBuilder> builder_;
    std::vector<RecordBatch> results_;
};

}  // namespace mgi::operators
