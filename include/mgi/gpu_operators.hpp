/// \file
/// The operators of <mgi/operators.hpp> over tables in GPU memory: part i lies on the GPU of endpoint i
/// before, and so does result i after (paper section 6.1, "Workloads"). They are in the library
/// mgi_gpu_operators, which MGI_BUILD_CUDA builds.
///
/// Endpoints are on GPUs, one or several a GPU, of this process or of several, as <mgi/operators.hpp> says: then each process
/// gives the parts at its own endpoints, and the results at others' have no rows. Columns are of any type, each with or without nulls;
/// String and Binary by offsets, since `gpu_table` takes no others. With one endpoint no row moves. An endpoint takes and gets
/// at most 2^32 - 2 rows of each table. Keys, but those of a sort, are at most 16 columns; a Decimal128, a String and a Binary count twice, a FixedSizeBinary
/// once for every 8 bytes.
///
/// Where the endpoints' GPUs reach each other's memory, kernels store each row at its final place there, also into
/// another process' result where the driver shares memory between the processes;
/// else, and with `by_reference=false`, rows go through a channel, as a group-by's do for which there is no room. Results are complete
/// when a call returns, on every stream. Rows come in no particular order, but a sort's. Nobody may write into the columns until
/// then; keys that change meanwhile are an error. Calls wait for the GPU and may come from several threads, but while one
/// sends through a channel no other call should run on the same GPUs: groups that wait for each other must all find room.
///
/// Streams: with `gpu_streams` a call works on a GPU behind all that was put into its stream before, so nobody has to wait for what
/// fills the columns. Its kernels run in that stream, but for those with a channel, and for cudaStreamPerThread, where they run
/// behind it. The call returns when its results are complete all the same, since their sizes are known only then, and its columns may be
/// written again. Several endpoints of a GPU share the stream; so may calls of several threads, each of which may then wait for the
/// others' work. On a GPU without a stream of the caller's, what fills the columns must have ended before the call
/// (wait_for_gpu_stream). A stream of another GPU, or one that is captured into a graph, is Error(InvalidArgument), and the capture goes
/// on. So are streams that are all of GPUs on which this process has no endpoint.
///
/// Memory: with `gpu_allocator`, or else RuntimeOptions::gpu_allocator, all that a call takes of a GPU's memory comes from it: results, which give
/// theirs back when the last copy of the table dies, also behind the runtime's end, and what is needed in between, which is given
/// back before the call returns or throws. Not from it are channels (RuntimeOptions::gpu_allocator provides those), and memory that other processes
/// write into: an exchange copies its results out of that. Other endpoints' kernels write into results, so their GPUs must reach memory of
/// the allocator; where it is of a CUDA memory pool that is closed to them, rows go through a channel, and a warning says so.
/// An operator whose allocator had no memory can be called again.
///
/// Room: where a group-by, a join or a sort finds no memory for what it needs beside the parts, all processes copy the columns that it looks at to the
/// host, go in rounds as with tables in host memory (below), and copy the results back, for which there must be room. The copies
/// count against `spill_limit`; a limit of 1 keeps a call from that. OperatorReport::rounds is above 0 then, and the phase "spill" says how
/// long the copies took.
///
/// Of OperatorOptions `groups` are the most thread blocks of an endpoint, of which only as many are taken as
/// have room beside what channels and sorters of the runtime need, `receive_limit` bytes of GPU memory that
/// results and tables of an endpoint may take (0: what the GPU has).
/// Errors: InvalidArgument; OutOfMemory, that says how much was wanted of what, and what was tried; Interrupted; GroupFailed
/// where a GPU's context is lost; those of channels.
///
/// Tables in host memory: the functions `..._on_gpus` take and give these, at endpoints on GPUs, which do the work: they copy rows
/// there and results back, through pinned buffers that threads of the host fill and empty (<mgi/gpu_copies.hpp>). Texts may be views;
/// results have offsets, in one batch a round. What the GPUs have no memory for at once goes in rounds, whose number follows from
/// the bytes of the rows and the GPUs' memory: while one is worked on, the next one's rows come and the results of the one before
/// go. An exchange and a group-by have rounds of as many rows each, and a group-by merges what the rounds have found; a join, and a group-by that
/// counts different values, have rounds of whole keys, by two more bytes of host memory for each row; a sort has rounds of ranges of the keys, likewise, and does not halve them. A round for which there is
/// no memory all the same is halved, until it has one row, or one key; then the call fails with OutOfMemory. `receive_limit` counts the rows
/// that come as well: half of it is for them. `spill_limit` are the bytes of host memory that results and rounds may take beside
/// the inputs, also OutOfMemory. OperatorReport::rounds says how many there were. `gpu_allocator` provides the memory of the rows, too.
/// Several processes decide on rounds together.
#pragma once

#include <string>
#include <vector>

#include <mgi/gpu_table.hpp>
#include <mgi/operators.hpp>

namespace mgi {

/// Moves every row to the endpoint that owns its key. With one endpoint the result is the part itself: the same columns, which it
/// keeps alive, and no memory of an allocator.
std::vector<GpuTable> exchange(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                               std::vector<GpuTable> const& parts,
                               std::vector<std::string> const& keys,
                               OperatorOptions const& options = {},
                               OperatorReport* report = nullptr);

/// Hash group-by. Null keys form one group, as in SQL; so do all NaNs. Sums of floats are added up in no
/// particular order. Sum, Avg, Variance and StdDev take integers, floats and decimals, the others any type, as on CPU devices; else it is
/// Error(InvalidArgument), which names the column. Min, Max and First of String, Binary and FixedSizeBinary, and of decimals beyond 64
/// bits, want all rows of an endpoint in its GPU's memory, and 4 bytes more a row and column, and take 1024 endpoints at most.
/// CountDistinct takes 15 keys at most.
std::vector<GpuTable> group_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                               std::vector<GpuTable> const& parts,
                               std::vector<std::string> const& keys,
                               std::vector<Aggregate> const& aggregates,
                               OperatorOptions const& options = {},
                               OperatorReport* report = nullptr);

/// Hash join of any kind, built on the side that has fewer rows; see Broadcast for where rows go.
std::vector<GpuTable> join(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& left, std::vector<GpuTable> const& right,
                           JoinSpec const& spec, OperatorOptions const& options = {},
                           OperatorReport* report = nullptr);

/// Sorts, as `sort` of <mgi/operators.hpp> does: result i is sorted, and all of its rows come before those of result i + 1. Keys are of any
/// type and as many as there are columns. Rows with equal keys come in any order, and all of them to one endpoint. Beside the rows that
/// arrive and the result an endpoint takes 24 bytes a row while it sorts, and up to 64 more for each row that ties with another one.
/// `OperatorReport::phases` has "sample", "count", "exchange", "sort" and "gather".
std::vector<GpuTable> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                           std::vector<GpuTable> const& parts, std::vector<SortKey> const& keys,
                           OperatorOptions const& options = {}, OperatorReport* report = nullptr);

/// The same over tables in host memory, at endpoints on GPUs; part i is what endpoint i gives, and so is result i. An exchange of one
/// endpoint moves nothing, and returns the part.
std::vector<Table> exchange_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    OperatorOptions const& options = {},
                                    OperatorReport* report = nullptr);
std::vector<Table> group_by_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    std::vector<Aggregate> const& aggregates,
                                    OperatorOptions const& options = {},
                                    OperatorReport* report = nullptr);
std::vector<Table> join_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& left, std::vector<Table> const& right,
                                JoinSpec const& spec, OperatorOptions const& options = {},
                                OperatorReport* report = nullptr);
std::vector<Table> sort_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                                OperatorOptions const& options = {},
                                OperatorReport* report = nullptr);

}  // namespace mgi
