// Exchange of tables in GPU memory: rows were counted, so there is room for all of them. Where kernels reach each other's
// memory they store each row at its final place; else rows go through a channel.
#pragma once

#include <mutex>
#include <numeric>
#include <optional>

#include "operators/gpu/facts.hpp"
#include "operators/gpu/outputs.hpp"
#include "operators/gpu/place_kernel.hpp"
#include "operators/gpu/windows.hpp"

namespace mgi::operators::on_gpu {

// Some columns of all parts, on their way to the endpoints that own their keys, which are among them, or to all endpoints, as
// their facts have it.
class Moving {
public:
    Moving(Operation& operation, Input const& input, std::vector<u32> columns,
           std::vector<u32> const& keys, Facts const& facts)
        : operation_(operation), input_(input), columns_(std::move(columns)), facts_(facts) {
        std::vector<Field> fields;
        for (u32 const c : columns_) {
            fields.push_back(input.schema()[c]);
            nulls_.push_back(facts.nulls[c]);
        }
        schema_ = Schema(fields);
        outputs_.resize(operation.size());
        for (u32 const key : keys) {
            auto const at = std::find(columns_.begin(), columns_.end(), key);
            keys_.push_back(u32(at - columns_.begin()));
        }
    }

    // Room for the rows that arrive at this process' endpoints; `run` makes it unless its caller has, to know before whether there
    // is any. Throws Error(OutOfMemory).
    void make_room() {
        for (std::size_t e = 0; e < operation_.size(); ++e) {
            if (facts_.rows_for(e) > kMostGpuRows) {
                throw Error(ErrorCode::OutOfMemory,
                            operation_.what() + ": endpoint " + std::to_string(e) + " would get " +
                                std::to_string(facts_.rows_for(e)) + " rows, more than " +
                                std::to_string(kMostGpuRows) + "; use more endpoints");
            }
        }
        operation_.each([&](std::size_t e) {
            outputs_[e].emplace(operation_.place(e), schema_, nulls_, facts_.rows_for(e),
                                "rows that arrive", operation_.windows(),
                                facts_.characters_for(columns_, e));
        });
        has_room_ = true;
    }

    // The rows at this process' endpoints, for kernels there. `name`: of the channel, where there is one.
    std::vector<Arrived> run(std::string const& name) {
        move(name);
        std::vector<Arrived> arrived(operation_.size());
        operation_.each([&](std::size_t e) { arrived[e] = outputs_[e]->arrived(); });
        operation_.end_phase("exchange");
        return arrived;
    }
    // The same as tables; those at others' endpoints have no rows.
    std::vector<GpuTable> run_to_tables(std::string const& name) {
        move(name);
        std::vector<GpuTable> results(operation_.size(), no_rows(schema_));
        operation_.each([&](std::size_t e) { results[e] = outputs_[e]->finish(); });
        operation_.end_phase("exchange");
        return results;
    }

private:
    void move(std::string const& name) {
        if (!has_room_) make_room();
        if (operation_.reach_each_other() && reach_memory()) {
            // The results' memory may have been others', who are done with it behind this.
            operation_.wait_for_all();
            place_all(own());
        } else if (!place_in_windows()) {
            send_all(name);
        }
    }

    // What a part's kernel is told, and what tells it.
    struct Placing {
        std::vector<Memory> keep;
        PlaceArgs args;
        std::vector<u64> end;
        std::vector<u64> character_end;
    };

    // Whether all kernels may write into all results. Memory of a caller's pool may be closed to other GPUs.
    [[nodiscard]] bool reach_memory() const {
        if (!operation_.place(0).has_callers_memory()) return true;
        for (std::size_t to = 0; to < operation_.size(); ++to) {
            for (std::size_t from = 0; from < operation_.size(); ++from) {
                for (void* const at : outputs_[to]->memories()) {
                    if (operation_.place(from).reaches_memory(operation_.place(to), at)) continue;
                    static std::once_flag once;
                    std::call_once(once, [&] {
                        log::warn(
                            "{}: rows go through a channel, since {} cannot write into what "
                            "the caller's gpu_allocator has on {}; cudaMemPoolSetAccess lets "
                            "it",
                            operation_.what(), operation_.place(from).name(),
                            operation_.place(to).name());
                    });
                    return false;
                }
            }
        }
        return true;
    }

    // The results' columns, by endpoint.
    [[nodiscard]] std::vector<OutputColumn> own() const {
        std::vector<OutputColumn> results;
        for (auto const& output : outputs_) {
            auto const columns = output->columns();
            results.insert(results.end(), columns.begin(), columns.end());
        }
        return results;
    }

    // Into other processes' memory as well; false where that cannot be.
    bool place_in_windows() {
        if (operation_.windows() == nullptr) return false;
        operation_.wait_for_all();  // as within one process
        std::vector<void*> mine;
        for (std::size_t const e : operation_.own()) {
            for (void* const window : outputs_[e]->memories()) mine.push_back(window);
        }
        auto const opened = operation_.open_windows(mine);
        if (!opened) return false;
        std::vector<OutputColumn> results;
        OthersWindows windows(*opened);
        for (std::size_t e = 0; e < operation_.size(); ++e) {
            auto const columns =
                operation_.is_own(e)
                    ? outputs_[e]->columns()
                    : windows.columns(operation_.process_of(e),
                                      OutputLayout(schema_, nulls_, facts_.rows_for(e),
                                                   facts_.characters_for(columns_, e)));
            results.insert(results.end(), columns.begin(), columns.end());
        }
        place_all(results);
        operation_.close_windows(mine);
        return true;
    }

    void place_all(std::vector<OutputColumn> const& results) {
        auto const first = sums_over_parts(facts_.rows_of_part_for);
        auto const characters = first_characters();
        // By part; one for each endpoint where all of them get the part.
        std::vector<std::vector<Placing>> placings(operation_.size());
        operation_.each([&](std::size_t p) {
            bool const to_all = facts_.going == Going::ToAll;
            std::size_t const step = to_all ? 1 : operation_.size();
            for (std::size_t e = 0; e < operation_.size(); e += step) {
                placings[p].push_back(
                    placing(p, some_of(results, e * columns_.size(), step * columns_.size()),
                            some_of(first[p], e, step), some_of(first[p + 1], e, step)));
                if (facts_.texts.empty()) continue;
                std::size_t const from = e * columns_.size();
                std::size_t const count = step * columns_.size();
                place_characters(p, placings[p].back(), some_of(characters[p], from, count),
                                 some_of(characters[p + 1], from, count));
            }
        });
        operation_.check();
        std::exception_ptr failure;
        try {
            operation_.each([&](std::size_t p) {
                if (input_.rows(p) == 0) return;
                // Not all to the same endpoint first.
                for (std::size_t i = 0; i < placings[p].size(); ++i) {
                    Placing const& one = placings[p][(p + i) % placings[p].size()];
                    if (has_long(schema_)) {
                        place<true>(p, one.args);
                    } else {
                        place<false>(p, one.args);
                    }
                }
                for (Placing const& one : placings[p]) check_placed(p, one);
            });
        } catch (...) {
            failure = std::current_exception();
            operation_.wait_for_kernels();
        }
        operation_.end_step(failure);
        for (std::size_t const p : operation_.own()) {
            for (std::size_t e = 0; e < operation_.size(); ++e) {
                u64 const rows = facts_.rows_of_part_for[p][e];
                u64 bytes = rows * row_bytes();
                for (auto const& of_text : facts_.characters_of_part_for) bytes += of_text[p][e];
                operation_.count_moved(p, e, rows, bytes);
            }
        }
    }

    template <bool kLong>
    void place(std::size_t p, PlaceArgs const& args) {
        using Rows = PlaceRows<kLong>;
        operation_.place(p).run(Rows::scratch_bytes(args.owners.count), Rows{}, args);
    }

    template <class T>
    static std::vector<T> some_of(std::vector<T> const& all, std::size_t first, std::size_t count) {
        auto const begin = all.begin() + std::ptrdiff_t(first);
        return {begin, begin + std::ptrdiff_t(count)};
    }

    // By part, and behind the last one: what all parts before have, by endpoint.
    static std::vector<std::vector<u64>> sums_over_parts(
        std::vector<std::vector<u64>> const& of_parts) {
        std::vector<std::vector<u64>> sums(of_parts.size() + 1);
        sums[0].resize(of_parts.size());
        for (std::size_t p = 0; p < of_parts.size(); ++p) {
            sums[p + 1] = sums[p];
            for (std::size_t e = 0; e < of_parts.size(); ++e) sums[p + 1][e] += of_parts[p][e];
        }
        return sums;
    }

    // By part, and behind the last one: where its characters go, by endpoint and column.
    [[nodiscard]] std::vector<std::vector<u64>> first_characters() const {
        std::size_t const size = operation_.size();
        std::vector<std::vector<u64>> first(
            size + 1, std::vector<u64>(facts_.texts.empty() ? 0 : size * columns_.size()));
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            auto const& of_column = facts_.characters_of(columns_[c]);
            if (of_column.empty()) continue;
            auto const sums = sums_over_parts(of_column);
            for (std::size_t p = 0; p <= size; ++p) {
                for (std::size_t e = 0; e < size; ++e)
                    first[p][e * columns_.size() + c] = sums[p][e];
            }
        }
        return first;
    }

    // `results`, `first`, `end`: of some endpoints, their columns, the row where the part's first one goes, and behind its last one.
    Placing placing(std::size_t p, std::vector<OutputColumn> const& results,
                    std::vector<u64> const& first, std::vector<u64> const& end) {
        Placing placing;
        placing.end = end;
        PlaceArgs& args = placing.args;
        args.owners = operation_.owners(keys_.size());
        args.owners.count = u32(first.size());
        if (facts_.ranges != nullptr) args.owners.ranges = facts_.ranges->of_part[p];
        u64 const* ends = nullptr;
        std::tie(args.columns, args.owners.layouts, args.owners.keys, args.results, args.next,
                 ends) =
            operation_.place(p).upload(placing.keep, input_.views(p, columns_, facts_.nulls),
                                       input_.layouts(columns_), keys_, results, first, end);
        args.end = ends;
        args.column_count = u32(columns_.size());
        args.rows = input_.rows(p);
        return placing;
    }

    // The same of its characters, by endpoint and column.
    void place_characters(std::size_t p, Placing& placing, std::vector<u64> const& first,
                          std::vector<u64> const& end) {
        placing.character_end = end;
        u64 const* ends = nullptr;
        std::tie(placing.args.next_character, ends) =
            operation_.place(p).upload(placing.keep, first, end);
        placing.args.character_end = ends;
    }

    void check_placed(std::size_t p, Placing const& placing) const {
        Place& place = operation_.place(p);
        bool as_counted = place.download(placing.args.next, placing.end.size()) == placing.end;
        if (!facts_.texts.empty()) {
            auto const& characters = placing.character_end;
            as_counted = as_counted && place.download(placing.args.next_character,
                                                      characters.size()) == characters;
        }
        if (!as_counted) refuse_changed("part " + std::to_string(p));
    }

    void send_all(std::string const& name) {
        std::vector<Field> travelling = schema_.fields();
        // A column without a null travels without validity, whatever its schema allows.
        for (std::size_t c = 0; c < travelling.size(); ++c) travelling[c].nullable = nulls_[c];
        Channel const channel = operation_.open(name, Schema(travelling), routing(), input_.rows(),
                                                facts_.text_needs(input_.rows()));
        struct Flowing {
            UploadedPart part;
            std::vector<Memory> keep;
            Arriving arriving;
        };
        std::map<std::size_t, Flowing> flowing;
        for (std::size_t const e : operation_.own()) {
            Place& place = operation_.place(e);
            UploadedPart part(place, input_.views(e, columns_, facts_.nulls), input_.rows(e));
            Arriving arriving;
            arriving.columns = outputs_[e]->uploaded();
            arriving.room = facts_.rows_for(e);
            std::vector<Memory> keep;
            u64 const* room = nullptr;
            std::tie(arriving.cursor, arriving.characters, room) =
                place.upload(keep, std::vector<u64>(1), std::vector<u64>(columns_.size()),
                             facts_.characters_for(columns_, e));
            arriving.character_room = room;
            flowing.emplace(e, Flowing{std::move(part), std::move(keep), arriving});
        }
        operation_.run<KeepArriving>(channel, KeepArriving::scratch_bytes(u32(columns_.size())),
                                     [&](std::size_t e) {
                                         Flowing const& here = flowing.at(e);
                                         return std::make_tuple(here.part.to_send, here.arriving);
                                     });
        operation_.close();
        for (auto const& [e, here] : flowing) {
            u64 const came = operation_.place(e).download(here.arriving.cursor, 1)[0];
            check_characters(e, here.arriving);
            if (came == facts_.rows_for(e)) continue;
            throw Error(ErrorCode::Internal, operation_.what() + ": " + std::to_string(came) +
                                                 " rows came to endpoint " + std::to_string(e) +
                                                 " in place of " +
                                                 std::to_string(facts_.rows_for(e)));
        }
    }

    [[nodiscard]] Routing routing() const {
        if (facts_.going == Going::ToAll) return Routing::broadcast();
        if (facts_.ranges != nullptr) return facts_.ranges->routing;
        std::vector<std::string> key_names;
        for (u32 const key : keys_) key_names.push_back(schema_[key].name);
        return operation_.partition(key_names);
    }

    void check_characters(std::size_t e, Arriving const& arriving) const {
        if (facts_.texts.empty()) return;
        auto const expected = facts_.characters_for(columns_, e);
        if (operation_.place(e).download(arriving.characters, expected.size()) == expected) return;
        refuse_changed("what comes to endpoint " + std::to_string(e));
    }
    [[noreturn]] void refuse_changed(std::string const& whose) const {
        refuse_changed_rows(operation_.what(), whose);
    }

    // Of payload, as a channel counts it.
    [[nodiscard]] u64 row_bytes() const {
        return std::accumulate(
            schema_.fields().begin(), schema_.fields().end(), u64{0},
            [](u64 sum, Field const& field) { return sum + field.type.row_width(); });
    }

    Operation& operation_;
    Input const& input_;
    std::vector<u32> const columns_;
    Facts const& facts_;
    Schema schema_;
    std::vector<bool> nulls_;
    std::vector<u32> keys_;  // among the columns
    bool has_room_ = false;
    std::vector<std::optional<OutputTable>> outputs_;  // by endpoint; of this process' own
};

inline std::vector<GpuTable> exchange_on(Operation& operation, std::vector<GpuTable> const& parts,
                                         std::vector<std::string> const& keys) {
    Input const input(operation, parts);
    Wanted wanted;
    wanted.keys = input.columns(keys);
    check_keys(input, wanted.keys, operation.options().hash);
    if (operation.size() == 1) {
        // Nothing moves: the part is the result, in no memory of its own, once the caller's stream has come so far.
        operation.wait_for_all();
        GpuTable result = parts[0];
        if (result.schema.empty()) result.columns.resize(input.schema().size());
        result.schema = input.schema();
        return {result};
    }
    wanted.going = Going::ToOwners;
    wanted.moving = input.columns_or_all({});
    Facts const facts = find_facts(operation, input, wanted);
    return Moving(operation, input, wanted.moving, wanted.keys, facts).run_to_tables("exchange");
}

}  // namespace mgi::operators::on_gpu
