#include "operators/through_host.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include <mgi/error.hpp>
#include <mgi/gpu_copies.hpp>

#include "core/log.hpp"
#include "core/parallel.hpp"
#include "operators/message.hpp"
#include "operators/schema_message.hpp"

namespace mgi::operators {

namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

// The same rows, of these columns alone.
GpuTable with_columns(GpuTable const& table, std::set<std::string> const& names) {
    if (names.empty()) return table;
    GpuTable some = table;
    some.columns.clear();
    std::vector<Field> fields;
    for (std::size_t c = 0; c < table.schema.size(); ++c) {
        if (names.count(table.schema[c].name) == 0) continue;
        fields.push_back(table.schema[c]);
        some.columns.push_back(table.columns[c]);
    }
    some.schema = Schema(std::move(fields));
    return some;
}

// What a call of an operator that goes through the host's memory has at hand.
class ThroughHost {
public:
    ThroughHost(HostCall const& call, std::string const& what)
        : call_(call),
          what_(what),
          limit_(call.options.spill_limit != 0 ? call.options.spill_limit : call.host_memory),
          memory_(host_budget(what, limit_)) {
        for (std::size_t e = 0; e < call.endpoints.size(); ++e) {
            if (call.processes.mine(call.endpoints[e])) own_.push_back(e);
        }
    }

    std::vector<std::vector<Table>> spill(std::vector<SpilledSide> const& sides,
                                          LookedAt const& looked_at) {
        std::vector<std::vector<Table>> host(sides.size(),
                                             std::vector<Table>(call_.endpoints.size()));
        together("copy to the host", [&](Conversation& talk, RoundPlaces& places) {
            auto const names = looked_at(schemas_of(talk, sides));
            places.wait_for_callers_work();
            each_own(sides.size(), [&](std::size_t s, std::size_t e) {
                GpuTable const some = with_columns((*sides[s])[e], names[s]);
                host[s][e].schema = some.schema;
                if (some.rows == 0) return;
                auto const known = u64(some.bytes());
                memory_.take(known);
                RecordBatch batch = places.to_host(some);
                u64 const all = bytes_with_offsets(batch);  // characters as well
                memory_.take(all - std::min(all, known));
                host[s][e].batches.push_back(std::move(batch));
            });
        });
        return host;
    }

    // Options of the rounds: what is left of the host's memory.
    [[nodiscard]] OperatorOptions of_rounds() const {
        OperatorOptions options = call_.options;
        options.gpu_out.clear();         // for all rounds together
        options.one_endpoint_bytes = 0;  // which may be what had no room
        options.spill_limit = std::max<u64>(limit_ - std::min(limit_, memory_.used()), 1);
        return options;
    }

    std::vector<GpuTable> restore(std::vector<Table> tables) {
        std::vector<GpuTable> results(tables.size());
        together("copy results back", [&](Conversation&, RoundPlaces& places) {
            each_own(1, [&](std::size_t, std::size_t e) {
                if (u64(tables[e].rows()) > kMostGpuRows) {
                    throw Error(ErrorCode::OutOfMemory,
                                what_ + ": a result of " + std::to_string(tables[e].rows()) +
                                    " rows at one endpoint, of which there may be " +
                                    std::to_string(kMostGpuRows) + "; use more endpoints");
                }
                std::vector<HostRows> rows;
                for (RecordBatch const& batch : tables[e].batches) {
                    rows.push_back({&batch, 0, batch.rows});
                }
                CopyToGpu const copy(tables[e].schema, std::move(rows));
                results[e] = copy.copy(places.gpu(e), places.allocate(e, copy.bytes(), "a result"));
                tables[e].batches.clear();
            });
        });
        for (std::size_t e = 0; e < tables.size(); ++e) {
            if (results[e].columns.size() == tables[e].schema.size()) continue;
            results[e].schema = tables[e].schema;  // of an endpoint of another process
            results[e].columns.resize(results[e].schema.size());
        }
        return results;
    }

private:
    // Runs `work(talk, places)` in each process, which ends well in all of them or in none.
    template <class Work>
    void together(char const* step, Work const& work) {
        Conversation talk(
            call_.processes, what_,
            call_of(call_.endpoints, call_.options, TableMemory::Gpu, {{"step", step}}),
            call_.options);
        converse(talk, [&] {
            work(talk, *call_.places(call_.options.receive_limit));
            talk.end({}, {});
        });
    }
    // The columns of each side: those of the first process that has any, since all have the same. A process without rows may not say
    // which there are.
    [[nodiscard]] std::vector<Schema> schemas_of(Conversation& talk,
                                                 std::vector<SpilledSide> const& sides) const {
        MessageWriter mine;
        for (SpilledSide const side : sides) {
            auto const has_columns = [&](std::size_t e) { return !(*side)[e].schema.empty(); };
            auto const at = std::find_if(own_.begin(), own_.end(), has_columns);
            say_schema(mine, at == own_.end() ? Schema() : (*side)[*at].schema);
        }
        std::vector<Schema> schemas(sides.size());
        for (std::string const& said : talk.gather(mine.take())) {
            MessageReader from(said);
            for (Schema& schema : schemas) {
                Schema heard = hear_schema(from);
                if (schema.empty()) schema = std::move(heard);
            }
        }
        return schemas;
    }
    // Calls `work(side, endpoint)` for all endpoints of this process, in threads.
    template <class Work>
    void each_own(std::size_t sides, Work const& work) const {
        std::size_t const jobs = sides * own_.size();
        in_parallel(jobs, jobs, [&](std::size_t job, std::size_t) {
            work(job / own_.size(), own_[job % own_.size()]);
        });
    }

    HostCall const& call_;
    std::string const& what_;
    u64 const limit_;
    Budget memory_;
    std::vector<std::size_t> own_;
};

std::vector<GpuTable> run(HostCall const& call, std::string const& what,
                          std::vector<SpilledSide> const& sides, LookedAt const& looked_at,
                          FromHost const& from_host) {
    auto const start = Clock::now();
    ThroughHost through(call, what);
    auto host = through.spill(sides, looked_at);
    OperatorReport report;
    auto const spilled = Clock::now();
    std::vector<Table> made = from_host(host, through.of_rounds(), &report);
    auto const worked = Clock::now();
    host.clear();
    std::vector<GpuTable> results = through.restore(std::move(made));
    auto const end = Clock::now();
    OperatorReport spilling;
    spilling.phases.push_back({"spill", Seconds(spilled - start + (end - worked)).count()});
    add_report(report, spilling);
    report.seconds = Seconds(end - start).count();
    if (call.report != nullptr) *call.report = std::move(report);
    return results;
}

}  // namespace

std::vector<GpuTable> through_host(HostCall const& call, std::string const& what,
                                   std::vector<SpilledSide> const& sides, LookedAt const& looked_at,
                                   std::string const& why, FromHost const& from_host) {
    log::info("{}: goes in rounds through the host's memory, since {}", what, why);
    auto const fail = [&](std::string const& text) {
        throw Error(ErrorCode::OutOfMemory, text + "; that was tried since " + why);
    };
    try {
        return run(call, what, sides, looked_at, from_host);
    } catch (Error const& error) {
        if (error.code() != ErrorCode::OutOfMemory) throw;
        fail(error.what());
    } catch (std::bad_alloc const&) {
        fail(what + ": the host has no memory for what does not fit the GPUs");
    }
    return {};
}

}  // namespace mgi::operators
