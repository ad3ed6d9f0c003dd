#include "operators/rounds.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <future>
#include <iterator>
#include <utility>

#include <mgi/error.hpp>

#include "core/parallel.hpp"
#include "operators/message.hpp"
#include "operators/report.hpp"

namespace mgi::operators {

namespace {

// A round's rows take this part of the room: beside them lie the next round's, those that have moved to their owners, tables,
// results, and those of the round before.
constexpr u64 kShare = 8;
// Far below what an operator takes at an endpoint, since its results may have more rows than come in.
constexpr u64 kMostRows = u64{1} << 30;
constexpr u32 kMostBits = 12;  // that rows are cut by at once

// The text of an error that is being handled: that there is no memory. Others are thrown on.
std::string reason_of(Error const& error) {
    if (error.code() != ErrorCode::OutOfMemory) throw;
    return error.what();
}

template <class Some>
void put_in_front(std::deque<Some>& all, std::vector<Some> some) {
    all.insert(all.begin(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
}

// Tables that are copied to the host meanwhile.
class Emptying {
public:
    Emptying(RoundPlaces const& places, std::vector<GpuTable> tables)
        : tables_(std::move(tables)), batches_(tables_.size()) {
        copying_ = std::async(std::launch::async | std::launch::deferred, [this, &places] {
            in_parallel(tables_.size(), tables_.size(), [&](std::size_t e, std::size_t) {
                if (tables_[e].rows != 0) batches_[e] = places.to_host(tables_[e]);
            });
        });
    }
    // Adds them to the results.
    void finish(std::vector<Table>& results, Budget& memory) {
        copying_.get();
        for (std::size_t e = 0; e < tables_.size(); ++e) {
            results[e].schema = tables_[e].schema;
            if (tables_[e].rows == 0) continue;
            memory.take(bytes_with_offsets(batches_[e]));
            results[e].batches.push_back(std::move(batches_[e]));
        }
    }

private:
    std::vector<GpuTable> tables_;
    std::vector<RecordBatch> batches_;
    std::future<void> copying_;  // dies first, and waits
};

}  // namespace

// A round's rows on the GPUs, or on their way there.
class Rounds::Loaded {
public:
    // Throws Error(OutOfMemory) where there is no memory for them.
    Loaded(Rounds const& rounds, std::vector<Side> const& sides, Round const& round)
        : tables_(sides.size(), std::vector<GpuTable>(rounds.endpoints_.size())) {
        for (std::size_t s = 0; s < sides.size(); ++s) {
            for (std::size_t const e : rounds.own_) {
                CopyToGpu copy(sides[s].input->schema(), round[s][e].runs);
                auto memory = rounds.places_.allocate(e, copy.bytes(), "rows of a round");
                copies_.push_back({s, e, std::move(copy), std::move(memory)});
            }
        }
        copying_ = std::async(std::launch::async | std::launch::deferred, [this, &rounds] {
            in_parallel(copies_.size(), copies_.size(), [&](std::size_t c, std::size_t) {
                Copy& copy = copies_[c];
                tables_[copy.side][copy.endpoint] =
                    copy.rows.copy(rounds.places_.gpu(copy.endpoint), std::move(copy.memory));
            });
        });
    }
    void wait() { copying_.get(); }
    [[nodiscard]] std::vector<std::vector<GpuTable>> const& tables() const { return tables_; }

private:
    struct Copy {
        std::size_t side;
        std::size_t endpoint;
        CopyToGpu rows;
        std::shared_ptr<void> memory;
    };

    std::vector<std::vector<GpuTable>> tables_;
    std::vector<Copy> copies_;
    std::future<void> copying_;  // dies first, and waits
};

u64 bytes_with_offsets(RecordBatch const& batch) {
    u64 texts = 0;
    for (Field const& field : batch.schema.fields()) texts += field.type.is_variable() ? 1 : 0;
    return u64(batch.bytes()) + texts * sizeof(i64) * (u64(batch.rows) + 1);
}

Budget host_budget(std::string const& what, u64 limit) {
    return {what + "'s results and parts in the host's memory", limit, "spill_limit"};
}

void add_report(OperatorReport& all, OperatorReport const& one) {
    for (OperatorPhase const& phase : one.phases) {
        auto const at =
            std::find_if(all.phases.begin(), all.phases.end(),
                         [&](OperatorPhase const& of) { return of.name == phase.name; });
        if (at == all.phases.end()) {
            all.phases.push_back(phase);
        } else {
            at->seconds += phase.seconds;
        }
    }
    all.rows += one.rows;
    all.bytes += one.bytes;
    for (OperatorLink const& link : one.links) add_link(all, link);
    all.peak_bytes = std::max(all.peak_bytes, one.peak_bytes);
    if (!one.built.empty()) {  // the last one counts
        all.built = one.built;
        all.broadcast = one.broadcast;
    }
    all.channels.insert(all.channels.end(), one.channels.begin(), one.channels.end());
    all.plans.insert(all.plans.end(), one.plans.begin(), one.plans.end());
}

Rounds::Rounds(Conversation& talk, std::vector<Endpoint> const& endpoints, RoundPlaces& places,
               OperatorOptions const& options, u64 host_memory, OperatorReport& report)
    : talk_(talk),
      endpoints_(endpoints),
      places_(places),
      caller_(talk.what(), options.cancel),
      memory_(
          host_budget(talk.what(), options.spill_limit != 0 ? options.spill_limit : host_memory)),
      report_(report),
      phase_start_(std::chrono::steady_clock::now()) {
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        if (talk.processes().mine(endpoints[e])) own_.push_back(e);
    }
}

std::size_t Rounds::needed(std::vector<Side> const& sides, u64 beside) {
    u64 rounds = 1;
    u64 rows = 1;
    for (std::size_t const e : own_) {
        u64 bytes = 0;
        u64 others = 0;
        for (Side const& side : sides) {
            Table const& part = side.input->part(e);
            for (RecordBatch const& batch : part.batches) bytes += bytes_with_offsets(batch);
            rows = std::max(rows, u64(part.rows()));
            others += u64(part.rows()) * beside;
        }
        // The share that the rows have leaves three more of its size to the operator, but for results and what comes next.
        if (beside != 0) bytes = std::max(bytes, bytes / 2 + others / 4);
        u64 const share = std::max<u64>(places_.room(e) / kShare, 1);
        rounds = std::max(rounds, bytes / share + (bytes % share != 0 ? 1 : 0));
    }
    rounds = std::min(std::max(rounds, rows / kMostRows + 1), rows);
    return std::size_t(most_of_all(rounds));
}

std::optional<std::vector<Table>> Rounds::whole(std::vector<Side> const& sides, Work const& work) {
    return run(sides, {all_rows(sides)}, work,
               [](Round const&, std::string const&, std::deque<Round>&) { return false; });
}

std::vector<Table> Rounds::by_rows(Side const& side, std::size_t rounds, Work const& work) {
    auto const pieces_of = [](Round const& round, std::size_t pieces) {
        std::vector<Round> cut(pieces, Round(1));
        for (RowSet const& set : round[0]) {
            std::vector<RowSet> of_set = cut_rows(set, pieces);
            for (std::size_t p = 0; p < pieces; ++p) cut[p][0].push_back(std::move(of_set[p]));
        }
        return cut;
    };
    std::deque<Round> first;
    put_in_front(first, pieces_of(all_rows({side}), rounds));
    return *run({side}, std::move(first), work,
                [&](Round const& round, std::string const& why, std::deque<Round>& todo) {
                    u64 rows = 0;
                    for (RowSet const& set : round[0]) rows = std::max(rows, set.rows);
                    if (most_of_all(rows) <= 1) {
                        throw Error(ErrorCode::OutOfMemory,
                                    why + " (in a round of one row at each endpoint)");
                    }
                    put_in_front(todo, pieces_of(round, 2));
                    return true;
                });
}

std::vector<Table> Rounds::by_keys(std::vector<Side> const& sides, NullKeys nulls,
                                   Work const& work) {
    std::vector<bool> nullable(sides[0].keys.size());
    for (Side const& side : sides) {
        for (std::size_t k = 0; k < nullable.size(); ++k) {
            nullable[k] = nullable[k] || side.input->schema()[side.keys[k].column].nullable;
        }
    }
    std::vector<KeyHashes> hashes;
    for (Side const& side : sides) hashes.emplace_back(side.keys, nullable, nulls);
    u32 const bits = u32(std::bit_width(needed(sides) - 1));
    std::deque<Round> todo;
    if (bits == 0) {
        todo.push_back(all_rows(sides));
    } else {
        put_in_front(todo, cut(all_rows(sides), hashes, 0, std::min(bits, kMostBits)));
    }
    auto const split = [&](Round const& round, std::string const& why, std::deque<Round>& left) {
        HashSpread spread;
        for (std::size_t s = 0; s < round.size(); ++s) {
            for (RowSet const& set : round[s]) spread.add(spread_of(set, hashes[s]));
        }
        MessageWriter mine;
        mine.number(spread.any ? 1 : 0).number(spread.one).number(spread.differing);
        for (std::string const& words : talk_.gather(mine.take())) {
            MessageReader from(words);
            HashSpread theirs;
            theirs.any = from.number(1) == 1;
            theirs.one = u32(from.number(UINT32_MAX));
            theirs.differing = u32(from.number(UINT32_MAX));
            spread.add(theirs);
        }
        if (spread.differing == 0) {
            throw Error(ErrorCode::OutOfMemory,
                        why + " (in a round that has the rows of one key alone)");
        }
        put_in_front(left, cut(round, hashes, u32(std::countl_zero(spread.differing)), 1));
        return true;
    };
    return *run(sides, std::move(todo), work, split);
}

std::optional<std::vector<Table>> Rounds::by_numbers(Side const& side, std::size_t rounds,
                                                     FindSets const& find, NumberedWork const& work,
                                                     std::string& why) {
    u64 const before = memory_.used();
    std::size_t const first = report_.rounds;
    std::deque<Round> todo(rounds, Round(1));
    Round const all = all_rows({side});
    for (RowSet const& set : all[0]) {
        std::vector<RowSet> of_set = cut_by(set, rounds, find);
        auto const held = held_by_cut(set.rows, of_set);
        for (std::size_t r = 0; r < rounds; ++r) {
            of_set[r].keep.push_back(held);
            todo[r][0].push_back(std::move(of_set[r]));
        }
    }
    auto results = run(
        {side}, std::move(todo),
        [&](std::vector<std::vector<GpuTable>> const& sides, OperatorReport* report) {
            return work(sides, report_.rounds - first, report);  // those before are done
        },
        [&](Round const&, std::string const& full, std::deque<Round>&) {
            why = full;
            return false;
        });
    if (!results) memory_.give(memory_.used() - before);  // of results that are no more
    return results;
}

std::shared_ptr<Charge> Rounds::held_by_cut(u64 rows, std::vector<RowSet> const& sets) {
    u64 runs = 0;
    for (RowSet const& set : sets) runs += set.runs.size();
    auto held = std::make_shared<Charge>(memory_);
    held->hold(rows * kNumberBytes + runs * sizeof(HostRows));
    return held;
}

Rounds::Round Rounds::all_rows(std::vector<Side> const& sides) const {
    Round all(sides.size(), std::vector<RowSet>(endpoints_.size()));
    for (std::size_t s = 0; s < sides.size(); ++s) {
        for (std::size_t const e : own_) all[s][e] = RowSet(sides[s].input->part(e));
    }
    return all;
}

std::vector<Rounds::Round> Rounds::cut(Round const& round, std::vector<KeyHashes> const& hashes,
                                       u32 bit, u32 bits) {
    std::vector<Round> parts(std::size_t{1} << bits, Round(round.size()));
    for (std::size_t s = 0; s < round.size(); ++s) {
        for (RowSet const& set : round[s]) {
            std::vector<RowSet> of_set = cut_by_keys(set, hashes[s], bit, bits);
            auto const held = held_by_cut(set.rows, of_set);
            for (std::size_t p = 0; p < parts.size(); ++p) {
                of_set[p].keep.push_back(held);
                parts[p][s].push_back(std::move(of_set[p]));
            }
        }
    }
    end_phase("partition");
    return parts;
}

std::optional<std::vector<Table>> Rounds::run(std::vector<Side> const& sides,
                                              std::deque<Round> todo, Work const& work,
                                              Split const& split) {
    std::vector<Table> results(endpoints_.size());
    std::unique_ptr<Loaded> ahead;  // of the first to do
    std::unique_ptr<Emptying> before;
    bool lone = false;  // a round is tried with nothing beside it
    Failure failure;    // of this process alone, until all have heard of it
    auto const alone = [&](auto const& what) {
        if (failure.what) return;
        try {
            what();
        } catch (...) {
            failure.what = std::current_exception();
        }
    };
    // Memory is taken and given back here, where no kernel runs; copies go on beside kernels.
    auto const take_results = [&] {
        alone([&] {
            if (before) before->finish(results, memory_);
        });
        before.reset();
        end_phase("download");
    };
    end_phase("partition");
    while (!todo.empty()) {
        Round const round = std::move(todo.front());
        todo.pop_front();
        std::unique_ptr<Loaded> here = std::move(ahead);
        std::string full;
        alone([&] {
            caller_.check();
            try {
                if (!here) here = std::make_unique<Loaded>(*this, sides, round);
                here->wait();
            } catch (Error const& error) {
                full = reason_of(error);
            }
        });
        end_phase("upload");
        talk_.end(failure, {});
        full = first_of_all(full);
        if (full.empty()) {
            // What fails here comes out at the end of this round.
            alone([&] {
                try {
                    if (todo.empty() || lone) return;
                    ahead = std::make_unique<Loaded>(*this, sides, todo.front());
                } catch (Error const& error) {
                    (void)reason_of(error);
                }
            });
            end_phase("upload");
            try {
                OperatorReport report;
                std::vector<GpuTable> made = work(here->tables(), &report);
                add_report(report_, report);
                ++report_.rounds;
                phase_start_ = std::chrono::steady_clock::now();
                here.reset();
                take_results();
                before = std::make_unique<Emptying>(places_, std::move(made));
                continue;
            } catch (Error const& error) {
                full = reason_of(error);
                phase_start_ = std::chrono::steady_clock::now();
            }
        }
        // What lay beside it may be what it had no room for.
        bool const crowded = ahead != nullptr || before != nullptr;
        ahead.reset();
        here.reset();
        take_results();
        lone = most_of_all(crowded ? 1 : 0) != 0;
        if (lone) {
            todo.push_front(round);
        } else if (!split(round, full, todo)) {
            return std::nullopt;
        }
    }
    take_results();
    talk_.end(failure, {});
    return results;
}

std::string Rounds::first_of_all(std::string const& words) {
    for (std::string const& one : talk_.gather(words)) {
        if (!one.empty()) return one;
    }
    return {};
}

u64 Rounds::most_of_all(u64 number) {
    for (std::string const& words : talk_.gather(MessageWriter().number(number).take())) {
        number = std::max(number, MessageReader(words).number());
    }
    return number;
}

void Rounds::end_phase(std::string const& name) {
    auto const now = std::chrono::steady_clock::now();
    OperatorReport one;
    one.phases.push_back({name, std::chrono::duration<double>(now - phase_start_).count()});
    add_report(report_, one);
    phase_start_ = now;
}

}  // namespace mgi::operators
