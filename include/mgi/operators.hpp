/// \file
/// Operators over tables that are spread over endpoints: part i lies at endpoint i before, and so
/// does result i after (paper section 6.1, "Workloads"). Clients of the public API.
///
/// Endpoints may belong to several processes (Runtime::gather_endpoints). Then every process that has
/// some among them makes the same calls in the same order, with the same endpoints and arguments, and
/// its own parts: those at others' endpoints have no rows here, and neither have their results. What
/// fails in one process (a bad column, no more memory, a kernel, a caller who cancels, the process
/// itself) is an error in all, which names whose it is; nobody gets a part of the result.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <mgi/gpu_allocator.hpp>
#include <mgi/gpu_table.hpp>
#include <mgi/runtime.hpp>

namespace mgi {

/// Whether rows that cross servers go straight to their endpoint, or first to the endpoint of the same
/// rank on its server, which sends them on. Each row comes to the same endpoint either way.
enum class TwoLevel : std::uint8_t {
    Auto,  ///< with many endpoints in many processes: where their product is beyond 256
    On,    ///< wherever there are several servers
    Off,
};

struct OperatorOptions {
    /// Of each endpoint, may differ between processes; 0: the device's cores shared by its endpoints.
    std::uint32_t groups = 0;
    Hash hash = Hash::Murmur3;
    bool by_reference = true;
    /// Of an exchange; the others go in one level, and refuse On with Error(InvalidArgument).
    TwoLevel two_level = TwoLevel::Auto;
    /// Bytes that results and tables may take; 0: what the runtime has left.
    std::uint64_t receive_limit = 0;
    /// Of operators at GPU endpoints: bytes of this process' host memory that results, the numbers of the rows of each round, and
    /// copies of tables on GPUs that find no room there may take (<mgi/gpu_operators.hpp>); 0: what the runtime has left.
    std::uint64_t spill_limit = 0;
    std::uint32_t segment_bytes = 0;
    /// Of a group-by, a join that chooses how to bring rows together, and a sort over tables in GPU memory at several endpoints, without
    /// `gpu_out`: inputs of at
    /// most so many bytes in all (of the columns that are looked at) come to one endpoint, where the most rows are, which has the whole result; the
    /// others' have no rows. Several GPUs wait for each other for longer than one takes for so few rows. Only where GPUs reach each
    /// other's memory, and within a quarter of `receive_limit`. Where the one has no room after all they are worked on at all endpoints. 0: never.
    std::uint64_t one_endpoint_bytes = 48u << 20;
    /// Set to true by another thread to stop the operator: its channels fail with Interrupted, and
    /// within about 50 ms it throws Error(Interrupted). Must outlive the call; null: never.
    std::atomic<bool> const* cancel = nullptr;
    /// With endpoints of several processes: how long one that has come to the operator's beginning,
    /// or to its end, waits for the others while no row moves; then Error(Timeout) names them.
    std::chrono::milliseconds patience{60'000};
    /// Of tables in GPU memory: the cudaStream_t (null: the legacy default stream) behind which a call works on a GPU, by N of "cuda:N",
    /// of which one at least has an endpoint of this process; see <mgi/gpu_operators.hpp>.
    std::map<int, void*> gpu_streams = {};
    /// Of tables in GPU memory: who provides all of it that a call takes; none: RuntimeOptions::gpu_allocator, or else MGI itself.
    GpuAllocator gpu_allocator = {};
    /// Of operators over tables in GPU memory: buffers of the caller's for the results, one table for each endpoint, of which those of other
    /// processes' endpoints may be empty. Each has the result's columns, by the same names, types and order, with offset 0 and
    /// room for `rows` rows on the endpoint's GPU, with validity where the result may have nulls; not the inputs' memory. The result's rows
    /// are copied there (phase "copy") as the call's last step, and the table that is returned is a view of them. What has
    /// no room there is Error(InvalidArgument), which says how many rows there are; so are String and Binary columns, whose sizes nobody knows
    /// before. Empty: the results have memory of their own.
    std::vector<GpuTable> gpu_out = {};
};

/// What a part of an operator's work took.
struct OperatorPhase {
    /// "collect" (few rows come to one endpoint), "copy" (results into gpu_out), "count", "exchange", "fold", "join", "sample", "sort", "gather"; of host tables at GPU endpoints also "partition", "upload" and
    /// "download": for how long the GPUs waited for that; of GPU tables that went through the host "spill": copying them there, and
    /// results back
    std::string name;
    double seconds = 0;
};

/// Rows that kernels stored in another endpoint's memory.
struct OperatorLink {
    std::uint32_t from = 0;  ///< endpoints, by their places in the call's list
    std::uint32_t to = 0;
    std::uint64_t bytes = 0;  ///< of payload
};

/// What an operator did.
struct OperatorReport {
    double seconds = 0;  ///< from the first launch to the last result
    /// Of an operator over tables in GPU memory, in the order in which they came first; one that came twice is here once.
    std::vector<OperatorPhase> phases;
    std::uint64_t rows = 0;   ///< sent; the second of two levels does not count
    std::uint64_t bytes = 0;  ///< payload sent, likewise
    bool two_level = false;   ///< rows went in two levels
    /// Of tables in host memory at GPU endpoints, and of GPU tables that went through it: how many rounds they went in; else 0.
    std::uint64_t rounds = 0;
    std::string built;       ///< of a join: "left" or "right", the side that the table was built on
    bool broadcast = false;  ///< of a join: no rows moved but that side's, to all endpoints
    bool at_one =
        false;  ///< few rows (OperatorOptions::one_endpoint_bytes) came to one endpoint, which has the result
    /// Of an operator over tables in GPU memory: what this process' parts sent to other endpoints without a channel, in the order of the
    /// endpoints; what goes through a channel is in `channels`.
    std::vector<OperatorLink> links;
    /// Likewise the most memory that one of this process' endpoints took at a time, beside its parts: of rows that arrive, tables and results.
    std::uint64_t peak_bytes = 0;
    std::vector<ChannelStats> channels;
    std::vector<Plan> plans;
};

/// Moves every row to the endpoint that owns its key.
std::vector<Table> exchange(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                            std::vector<Table> const& parts, std::vector<std::string> const& keys,
                            OperatorOptions const& options = {}, OperatorReport* report = nullptr);

/// What a group-by makes of a column; nulls are skipped. On GPUs Min, Max and First do not take every type (see
/// <mgi/gpu_operators.hpp>).
enum class AggregateFunction : std::uint8_t {
    /// Integers: int64; floats: float64; decimals: decimal128 of 38 digits and the same scale. Null
    /// without values. Exact but for floats, whatever the order of rows: one that does not fit is an error that names the column,
    /// partial ones may be larger. Floats on CPU devices are compensated for rounding (docs/aggregates.md).
    Sum,
    Count,  ///< any type: int64, how many values there are; never null
    /// Any type: its own; texts and binary order by bytes, NaN behind all numbers, false before true.
    /// Null without values.
    Min,
    Max,  ///< likewise
    Avg,  ///< integers, floats, decimals: float64. Null without values
    /// Of a sample (SQL's var_samp), of integers, floats and decimals, taken as float64: float64, in the square of
    /// the values' unit. Null for fewer than two values. NaN where a value is NaN or infinite, or where the
    /// variance leaves float64. Values may lie far from 0: differences from a pivot among them are summed up
    /// (docs/aggregates.md says how exactly).
    Variance,
    StdDev,  ///< the square root of Variance (SQL's stddev_samp); in the values' unit
    /// Any type: its own; one of the values (SQL's any_value): the least one, so that every run gives the same. Null without
    /// values.
    First,
    /// Any type: int64, how many different values there are; never null. All NaNs are equal, and so are 0.0
    /// and -0.0. The pairs of keys and value that differ go to the endpoint that owns the keys, once for
    /// each column, and take memory there until the call returns.
    CountDistinct,
};

/// One column of a group-by's result. Count with an empty column counts rows. Types are as DuckDB gives
/// them, but for sums of integers.
struct Aggregate {
    AggregateFunction function = AggregateFunction::Count;
    std::string column;
    std::string name;  ///< of the result
};

/// Hash group-by. Null keys form one group, as in SQL; so do all NaNs.
std::vector<Table> group_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                            std::vector<Table> const& parts, std::vector<std::string> const& keys,
                            std::vector<Aggregate> const& aggregates,
                            OperatorOptions const& options = {}, OperatorReport* report = nullptr);

/// Which rows a join gives, as in SQL. Null keys match nothing: such a row is one without a partner.
enum class JoinKind : std::uint8_t {
    Inner,  ///< pairs of rows with equal keys; duplicates on both sides multiply
    Left,   ///< pairs, and left rows without a partner, with nulls in the right's columns
    Right,  ///< pairs, and right rows without a partner
    Full,   ///< pairs, and both sides' rows without a partner
    Semi,   ///< left rows that have a partner, each once; no column of the right
    Anti,   ///< left rows without a partner (NOT EXISTS); no column of the right
};

/// How a join brings rows together.
enum class Broadcast : std::uint8_t {
    /// Chosen by the sizes of the sides: with one endpoint, and where one side is so small that it costs less to have all of it
    /// everywhere than to move the other.
    Auto,
    /// Every endpoint gets all rows of one side (on CPUs a process' endpoints share them) and a table of them; the other side's rows do
    /// not move, so each row of the result is where that one was. Skewed keys do no harm. The side is the smaller one, but for one whose rows
    /// may come out alone: of a Left, Semi or Anti join it is the right, of a Right join the left; a Full join of several
    /// endpoints refuses On with Error(InvalidArgument).
    On,
    Off,  ///< rows of both sides go to the endpoint that owns their keys, as exchange has it
};

/// What to join and which columns to materialize (empty: all). Keys are equal by value, whatever units they count in: timestamps of
/// seconds and of nanoseconds, decimals of other scales; docs/types.md says which, others are Error(InvalidArgument). Columns of the right that are named
/// like ones of the left get the suffix "_right". Without a list of the right's columns, key columns
/// of equal names come once, as with SQL's USING: where a row of a Right or Full join has no left
/// partner, they hold the right's key, which then must be of the same type. (Of equal floats that differ,
/// 0.0 and -0.0, it is either side's.)
struct JoinSpec {
    std::vector<std::string> left_keys;
    std::vector<std::string> right_keys;
    std::vector<std::string> left_columns;
    std::vector<std::string> right_columns;  ///< none of a Semi or Anti join
    JoinKind kind = JoinKind::Inner;
    Broadcast broadcast = Broadcast::Auto;
};

/// Hash join (paper section 6.1, "Join"), built on the side that has fewer rows, of which all processes know how many there
/// are; see Broadcast for where rows go.
std::vector<Table> join(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                        std::vector<Table> const& left, std::vector<Table> const& right,
                        JoinSpec const& spec, OperatorOptions const& options = {},
                        OperatorReport* report = nullptr);

/// Sorts: endpoint i's result is sorted by the keys, the first one first, and all of its rows come before those of
/// endpoint i + 1, so that all results together are the sorted table. In which order rows come whose keys are
/// equal is not said, and may differ from call to call.
///
/// Rows go to the endpoint whose range they fall into; ranges follow from samples of all parts, so endpoints get
/// about equally many rows, whatever order they came in. Rows with equal keys come to one endpoint: of a key that
/// many rows have it gets more than the others. Beside the rows it keeps and its result an endpoint takes 34 bytes
/// a row until the call returns. `receive_limit` bounds the rows that are kept, and by itself what is taken beside them.
/// `patience` is also how long an endpoint may sort while the others have ended. Throws Error(InvalidArgument) for no keys, one that is given twice, and a column
/// that is not there; otherwise as the other operators.
std::vector<Table> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                        std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                        OperatorOptions const& options = {}, OperatorReport* report = nullptr);

}  // namespace mgi
