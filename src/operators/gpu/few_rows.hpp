// Inputs of few rows: all of them come to one endpoint, which does the whole work. Several GPUs would wait for each other for
// longer than one of them takes.
#pragma once

#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "operators/gpu/bring_kernel.hpp"
#include "operators/gpu/outputs.hpp"
#include "operators/gpu/windows.hpp"

namespace mgi::operators::on_gpu {

// Parts of a side of an operator, and what it is of it: ": left".
struct NamedSide {
    std::vector<GpuTable> const& parts;
    std::string name;
};
// What an operator works on, side by side.
using Sides = std::deque<Input>;
// By side: columns that the operator looks at, by name; none: all.
using ColumnsOfSides = std::vector<std::set<std::string>>;

class FewRows {
public:
    // `sides` must outlive it.
    FewRows(Operation& operation, Sides const& sides, ColumnsOfSides const& columns)
        : operation_(operation), sides_(sides), columns_(sides.size()), characters_(sides.size()) {
        for (std::size_t s = 0; s < sides.size(); ++s) {
            Schema const& schema = sides[s].schema();
            for (u32 c = 0; c < schema.size(); ++c) {
                bool const looked_at = columns[s].empty() || columns[s].count(schema[c].name) != 0;
                if (looked_at) columns_[s].push_back(c);
            }
        }
    }

    // Whether rows are few enough to come to one endpoint. All processes find the same.
    [[nodiscard]] bool are_few() {
        auto const& options = operation_.options();
        u64 limit = options.one_endpoint_bytes;
        if (options.receive_limit != 0) limit = std::min(limit, options.receive_limit / 4);
        if (operation_.size() == 1 || limit == 0 || !operation_.places_rows()) return false;
        if (!options.gpu_out.empty()) return false;  // whose rooms are for a share each
        u64 bytes = 0;
        bool texts = false;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            if (sides_[s].rows() > kMostGpuRows) return false;
            for (u32 const c : columns_[s]) {
                Type const& type = sides_[s].schema()[c].type;
                bytes += sides_[s].rows() * std::max(1u, type.row_width());
                texts = texts || type.is_variable();
            }
        }
        if (bytes > limit) return false;
        if (texts) bytes += count_characters();
        return bytes <= limit;
    }

    // The results of `work(operation, sides)` at the one endpoint, and none at the others; or nothing where rows cannot come
    // there after all, which all processes find.
    template <class Work>
    std::optional<std::vector<GpuTable>> run(Runtime& runtime, OperatorReport* report,
                                             Work const& work) {
        find_home();
        make_room();
        if (!bring()) {
            tables_.clear();
            return std::nullopt;
        }
        operation_.end_phase("collect");
        std::vector<GpuTable> here;
        if (operation_.is_own(home_)) here = work_at_home(runtime, report, work);
        if (operation_.alone()) check_texts();
        std::vector<GpuTable> results(operation_.size(), no_rows(schema_of(here)));
        for (std::size_t const e : operation_.own()) results[e].gpu = operation_.place(e).gpu();
        if (!here.empty()) {
            for (GpuTable& other : results) {
                for (std::size_t c = 0; c < other.columns.size(); ++c) {
                    other.columns[c].encoding = here[0].columns[c].encoding;
                }
            }
            results[home_] = std::move(here[0]);
        }
        operation_.worked_at_one();
        return results;
    }

private:
    // Of all texts that are looked at, of all processes.
    u64 count_characters() {
        MessageWriter words;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            characters_[s].resize(columns_[s].size(), std::vector<u64>(operation_.size()));
            for (std::size_t c = 0; c < columns_[s].size(); ++c) {
                if (!sides_[s].schema()[columns_[s][c]].type.is_variable()) continue;
                operation_.each([&](std::size_t p) {
                    characters_[s][c][p] =
                        sides_[s].characters(operation_.place(p), p, columns_[s][c]);
                });
                for (std::size_t const p : operation_.own()) words.number(characters_[s][c][p]);
            }
        }
        if (!operation_.alone()) hear_characters(operation_.gather(words.take()));
        u64 all = 0;
        for (auto const& of_side : characters_) {
            for (auto const& of_column : of_side) {
                all = std::accumulate(of_column.begin(), of_column.end(), all);
            }
        }
        return all;
    }
    void hear_characters(std::vector<std::string> const& said) {
        for (std::size_t process = 0; process < said.size(); ++process) {
            MessageReader from(said[process]);
            for (std::size_t s = 0; s < sides_.size(); ++s) {
                for (std::size_t c = 0; c < columns_[s].size(); ++c) {
                    if (!sides_[s].schema()[columns_[s][c]].type.is_variable()) continue;
                    for (std::size_t p = 0; p < operation_.size(); ++p) {
                        if (operation_.process_of(p) == process) {
                            characters_[s][c][p] = from.number();
                        }
                    }
                }
            }
        }
    }

    // Where the most rows are already.
    void find_home() {
        u64 most = 0;
        for (std::size_t e = 0; e < operation_.size(); ++e) {
            u64 rows = 0;
            for (Input const& side : sides_) rows += side.rows_of(e);
            if (rows > most) {
                most = rows;
                home_ = e;
            }
        }
    }

    // Columns of a side that moves, and of them the characters at home.
    struct Moved {
        Schema schema;
        std::vector<bool> nulls;
        std::vector<u64> characters;
    };
    [[nodiscard]] Moved moved(std::size_t s) const {
        Moved moved;
        std::vector<Field> fields;
        for (std::size_t c = 0; c < columns_[s].size(); ++c) {
            fields.push_back(sides_[s].schema()[columns_[s][c]]);
            moved.nulls.push_back(sides_[s].has_validity(columns_[s][c]));
            moved.characters.push_back(first_character(s, c, operation_.size()));
        }
        moved.schema = Schema(std::move(fields));
        return moved;
    }
    // Where a part's characters begin at home.
    [[nodiscard]] u64 first_character(std::size_t s, std::size_t c, std::size_t part) const {
        if (characters_[s].empty()) return 0;
        auto const& of_parts = characters_[s][c];
        return std::accumulate(of_parts.begin(), of_parts.begin() + std::ptrdiff_t(part), u64{0});
    }
    [[nodiscard]] u64 first_row(std::size_t s, std::size_t part) const {
        u64 rows = 0;
        for (std::size_t p = 0; p < part; ++p) rows += sides_[s].rows_of(p);
        return rows;
    }

    void make_room() {
        if (!operation_.is_own(home_)) return;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            Moved const to = moved(s);
            tables_.emplace_back(operation_.place(home_), to.schema, to.nulls, sides_[s].rows(),
                                 "rows that come to one endpoint", operation_.windows(),
                                 to.characters);
        }
    }

    bool bring() {
        if (operation_.alone()) {
            if (!reach_home()) return false;
            bring_to(own());
            return true;
        }
        operation_.wait_for_all();
        std::vector<void*> mine;
        for (OutputTable const& table : tables_) {
            for (void* const window : table.memories()) mine.push_back(window);
        }
        auto const opened = operation_.open_windows(mine);
        if (!opened) return false;
        std::exception_ptr failure;
        try {
            bring_to(operation_.is_own(home_) ? own() : at_other_process(*opened));
            operation_.wait_for_all();
            check_texts();
        } catch (...) {
            failure = std::current_exception();
            operation_.wait_for_kernels();
        }
        operation_.end_step(failure);
        operation_.close_windows(mine);
        return true;
    }

    // Whether the kernels of all endpoints may write into what home has allocated.
    [[nodiscard]] bool reach_home() const {
        Place const& home = operation_.place(home_);
        for (OutputTable const& table : tables_) {
            for (void* const at : table.memories()) {
                for (std::size_t const p : operation_.own()) {
                    if (!operation_.place(p).reaches_memory(home, at)) return false;
                }
            }
        }
        return true;
    }

    using ColumnsAtHome = std::vector<std::vector<OutputColumn>>;  // by side
    [[nodiscard]] ColumnsAtHome own() const {
        ColumnsAtHome columns;
        for (OutputTable const& table : tables_) columns.push_back(table.columns());
        return columns;
    }
    [[nodiscard]] ColumnsAtHome at_other_process(
        std::vector<std::vector<GpuWindows::Window>> const& opened) const {
        OthersWindows windows(opened);
        ColumnsAtHome columns;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            Moved const to = moved(s);
            columns.push_back(windows.columns(
                operation_.process_of(home_),
                OutputLayout(to.schema, to.nulls, sides_[s].rows(), to.characters)));
        }
        return columns;
    }

    void bring_to(ColumnsAtHome const& columns) {
        // Home's memory may have been others', who are done with it behind what is in home's stream.
        each_other_place([&](Place& other, Place& home) { other.follow(home); });
        for (std::size_t const p : operation_.own()) {
            std::vector<BroughtColumn> brought;
            // Of texts alone.
            u64* changed = nullptr;
            if (!characters_[0].empty()) {
                changed = operation_.place(p).upload_one(keep_, std::vector<u64>(1));
                changed_[p] = changed;
            }
            for (std::size_t s = 0; s < sides_.size(); ++s) {
                if (sides_[s].rows_of(p) != 0) add(brought, s, p, columns[s], changed);
            }
            if (brought.empty()) continue;
            BroughtColumn const* const at = operation_.place(p).upload_one(keep_, brought);
            operation_.place(p).run(0, BringColumns{}, at, u32(brought.size()));
        }
        each_other_place([&](Place& other, Place& home) { home.follow(other); });
    }
    // Of this process, where home is one of its own.
    template <class Use>
    void each_other_place(Use const& use) const {
        if (!operation_.is_own(home_)) return;
        for (std::size_t const p : operation_.own()) {
            if (p != home_) use(operation_.place(p), operation_.place(home_));
        }
    }
    void add(std::vector<BroughtColumn>& brought, std::size_t s, std::size_t p,
             std::vector<OutputColumn> const& columns, u64* changed) const {
        Input const& side = sides_[s];
        // Of a column without validity in any part there is none at home.
        auto const views =
            side.views(p, columns_[s], std::vector<bool>(side.schema().size(), true));
        u64 bytes = 0;
        for (std::size_t c = 0; c < columns.size(); ++c) {
            u64 const characters = characters_[s].empty() ? 0 : characters_[s][c][p];
            brought.push_back({views[c], columns[c], side.rows_of(p), first_row(s, p),
                               first_character(s, c, p), characters, changed});
            bytes += side.rows_of(p) * columns[c].width + characters;
        }
        operation_.count_moved(p, home_, side.rows_of(p), bytes);
    }
    // Whether texts are as they were counted, behind the kernels that bring them.
    void check_texts() const {
        for (auto const& [p, changed] : changed_) {
            if (operation_.place(p).download(changed, 1)[0] != 0) {
                refuse_changed_rows(operation_.what(), "part " + std::to_string(p));
            }
        }
    }

    template <class Work>
    std::vector<GpuTable> work_at_home(Runtime& runtime, OperatorReport* report, Work const& work) {
        std::vector<Endpoint> const home{operation_.endpoint(home_)};
        auto const alone = processes_of(runtime, home);
        OperatorOptions options = operation_.options();
        options.gpu_streams.clear();  // the place works behind its own already
        Operation here(
            *alone, operation_.what(), runtime, home, options,
            [&](Device const&, PlaceOptions const&) { return operation_.shared_place(home_); },
            report);
        std::deque<std::vector<GpuTable>> parts;
        Sides sides;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            parts.push_back({tables_[s].table()});
            sides.emplace_back(here, parts.back(), sides_[s].side());
        }
        return work(here, sides);
    }

    // Of the results, which only home knows.
    Schema schema_of(std::vector<GpuTable> const& here) {
        if (operation_.alone()) return here[0].schema;
        MessageWriter words;
        if (!here.empty()) say_schema(words, here[0].schema);
        std::string const said = operation_.gather(words.take())[operation_.process_of(home_)];
        MessageReader from(said);
        return hear_schema(from);
    }

    Operation& operation_;
    Sides const& sides_;
    std::vector<std::vector<u32>> columns_;                  // by side
    std::vector<std::vector<std::vector<u64>>> characters_;  // by side, column and part
    std::size_t home_ = 0;
    std::vector<Memory> keep_;
    std::map<std::size_t, u64*> changed_;  // by part of this process, where there are texts
    std::deque<OutputTable> tables_;       // at home, by side; none in another process
};

}  // namespace mgi::operators::on_gpu
