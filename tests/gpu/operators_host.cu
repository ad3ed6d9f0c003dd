// Operators at GPU endpoints over tables in the host's memory: in one round and in many.
#include <string>
#include <utility>
#include <vector>

#include "gpu/operators_bed.hpp"

namespace mgi::test::on_gpu {

namespace {

using F = AggregateFunction;

// Parts of several batches each; the last one is empty where there are several.
std::vector<Table> parts_of(Bed const& bed, PlainTable const& table) {
    std::size_t const count = bed.endpoints().size();
    std::size_t const shares = count == 1 ? 1 : count - 1;
    std::vector<Table> parts(count);
    for (std::size_t p = 0; p < shares; ++p) {
        std::size_t const first = table.rows.size() * p / shares;
        std::size_t const end = table.rows.size() * (p + 1) / shares;
        std::size_t const middle = first + (end - first) / 3;
        parts[p].schema = table.schema;
        parts[p].batches = {batch_of(table, first, middle - first),
                            batch_of(table, middle, end - middle)};
    }
    return parts;
}

Rows all_rows(std::vector<Table> const& tables) {
    Rows rows;
    for (Table const& table : tables) {
        for (RecordBatch const& batch : table.batches) {
            for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
        }
    }
    return sorted(rows);
}

// Without a limit there is one round, with one of so many bytes there are several.
template <class Body>
void with_and_without_limit(Bed& bed, u64 limit, Body const& body) {
    for (u64 const bytes : {u64{0}, limit}) {
        bed.options.receive_limit = bytes;
        OperatorReport report;
        body(report);
        if (bytes == 0 && report.rounds > 1) throw Wrong("rounds without need");
        bool const many = bed.endpoints().size() <= 2;  // the more endpoints, the less has each
        if (bytes != 0 && many && report.rounds < 2) throw Wrong("one round within the limit");
    }
    bed.options.receive_limit = 0;
}

PlainTable some_rows(std::size_t rows, u64 values, u64 seed) {
    Schema const schema{{"key", int64(), true}, {"x", int32(), true},
                        {"flag", boolean()},    {"name", string(), true},
                        {"code", binary()},     {"price", decimal128(20, 2), true}};
    return random_table(schema, rows, values, seed);
}

void exchanged(Bed& bed, std::size_t rows) {
    PlainTable const table = some_rows(rows, rows / 4, 21);
    if (bed.endpoints().size() == 1) {
        expect_same(all_rows(exchange_on_gpus(bed.runtime(), bed.endpoints(), parts_of(bed, table),
                                              {"key"}, bed.options)),
                    sorted(table.rows));
        return;
    }
    with_and_without_limit(bed, 40 * rows, [&](OperatorReport& report) {
        auto const results = exchange_on_gpus(bed.runtime(), bed.endpoints(), parts_of(bed, table),
                                              {"key"}, bed.options, &report);
        expect_same(all_rows(results), sorted(table.rows));
        std::map<Cell, std::size_t> owners;
        for (std::size_t e = 0; e < results.size(); ++e) {
            for (Row const& row : all_rows({results[e]})) {
                if (owners.emplace(row[0], e).first->second != e) throw Wrong("two own a key");
            }
        }
    });
}

void grouped(Bed& bed, std::size_t rows) {
    std::vector<Aggregate> wanted{
        {F::Count, "", "rows"},    {F::Sum, "x", "sum"},       {F::Avg, "x", "avg"},
        {F::Min, "x", "min"},      {F::Max, "flag", "max"},    {F::Variance, "x", "var"},
        {F::First, "flag", "any"}, {F::Sum, "price", "total"}, {F::Avg, "price", "mean"},
        {F::Min, "name", "first"}, {F::Max, "code", "last"},   {F::Max, "price", "most"}};
    for (u64 const keys : {u64{5}, u64(rows)}) {
        for (std::string const key : {"key", "name"}) {
            PlainTable const table = some_rows(rows, keys, 22);
            for (bool const distinct : {false, true}) {
                auto all = wanted;
                if (distinct) all.push_back({F::CountDistinct, "code", "codes"});
                // A few keys have most of the rows: those that are cut by them want room for that.
                if (distinct && keys < 10) continue;
                with_and_without_limit(bed, 320 * rows, [&](OperatorReport& report) {
                    expect_same(all_rows(group_by_on_gpus(bed.runtime(), bed.endpoints(),
                                                          parts_of(bed, table), {key}, all,
                                                          bed.options, &report)),
                                sorted(group_by(table, {key}, all)), rounded(1, all));
                });
            }
        }
    }
}

void joined(Bed& bed, std::size_t rows) {
    PlainTable const left = some_rows(rows, rows / 2, 23);
    PlainTable right =
        random_table(Schema{{"id", int32(), true}, {"y", float64(), true}}, rows / 2, rows / 2, 24);
    for (JoinKind const kind : test::kKinds) {
        bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
        JoinSpec const spec{{"key"},
                            {"id"},
                            {"key", "x", "name", "price"},
                            pairs ? std::vector<std::string>{"y"} : std::vector<std::string>{},
                            kind};
        with_and_without_limit(bed, 160 * rows, [&](OperatorReport& report) {
            expect_same(all_rows(join_on_gpus(bed.runtime(), bed.endpoints(), parts_of(bed, left),
                                              parts_of(bed, right), spec, bed.options, &report)),
                        sorted(join(left, right, spec.left_keys, spec.right_keys, spec.left_columns,
                                    spec.right_columns, kind)));
        });
    }
}

// Runs `call(report)`, whose results it checks, with less and less memory: until it goes through the host, or its results have no room.
template <class Call>
void with_less_and_less(Bed& bed, std::size_t rows, Call const& call) {
    bool spilled = false;
    for (u64 limit = 300 * rows; !spilled; limit = limit * 9 / 10) {
        bed.options.receive_limit = limit;
        OperatorReport report;
        try {
            call(&report);
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
            break;
        }
        spilled = report.rounds != 0;
        if (spilled && report.phases.back().name != "spill") throw Wrong("no spill");
    }
    if (!spilled) throw Wrong("nothing went through the host");
    bed.options.spill_limit = 1;
    expect_error(ErrorCode::OutOfMemory, "spill_limit", [&] { call(nullptr); });
    bed.options.spill_limit = 0;
    bed.options.receive_limit = 0;
}

// Tables on GPUs that have no room for what an operator needs beside them.
void spilled(Bed& bed, std::size_t rows) {
    PlainTable const left = some_rows(rows, rows / 2, 26);
    PlainTable const right =
        random_table(Schema{{"id", int32(), true}, {"y", float64()}, {"note", string(), true}},
                     rows / 2, rows / 2, 27);
    for (JoinKind const kind : {JoinKind::Inner, JoinKind::Anti}) {
        std::vector<std::string> some{"y", "note"};
        if (kind == JoinKind::Anti) some.clear();
        JoinSpec const spec{{"key"}, {"id"}, {"key"}, some, kind};
        Rows const expected = sorted(join(left, right, spec.left_keys, spec.right_keys,
                                          spec.left_columns, spec.right_columns, kind));
        with_less_and_less(bed, rows, [&](OperatorReport* report) {
            expect_same(Bed::all_rows(join(bed.runtime(), bed.endpoints(), bed.parts_of(left),
                                           bed.parts_of(right), spec, bed.options, report)),
                        expected);
        });
    }
    std::vector<Aggregate> const wanted{{F::Count, "", "rows"}, {F::Max, "name", "last"}};
    Rows const groups = sorted(group_by(left, {"key"}, wanted));
    with_less_and_less(bed, rows, [&](OperatorReport* report) {
        expect_same(Bed::all_rows(group_by(bed.runtime(), bed.endpoints(), bed.parts_of(left),
                                           {"key"}, wanted, bed.options, report)),
                    groups);
    });
    PlainTable const narrow =
        random_table(Schema{{"key", int64()}, {"x", int32()}}, rows, 1u << 30, 28);
    Rows const all = sorted(narrow.rows);
    with_less_and_less(bed, rows, [&](OperatorReport* report) {
        auto const results = sort(bed.runtime(), bed.endpoints(), bed.parts_of(narrow),
                                  {{"key"}, {"x"}}, bed.options, report);
        expect_same(Bed::all_rows(results), all);
    });
}

void refused(Bed& bed, std::size_t rows) {
    PlainTable table = some_rows(rows, 50, 25);
    for (Row& row : table.rows) row[0] = {true, 7};
    bed.options.receive_limit = 10'000;
    expect_error(ErrorCode::OutOfMemory, "rows of one key alone", [&] {
        join_on_gpus(bed.runtime(), bed.endpoints(), parts_of(bed, table), parts_of(bed, table),
                     {{"key"}, {"key"}, {"x"}, {"name"}, JoinKind::Inner}, bed.options);
    });
    bed.options.receive_limit = 0;
    bed.options.spill_limit = 100;
    expect_error(ErrorCode::OutOfMemory, "spill_limit", [&] {
        group_by_on_gpus(bed.runtime(), bed.endpoints(), parts_of(bed, table), {"name"}, {},
                         bed.options);
    });
    bed.options.spill_limit = 0;
    Endpoint const cpu = bed.runtime().create_endpoint("cpu:0");
    expect_error(ErrorCode::InvalidArgument, "an endpoint is on cpu:0; all are on GPUs here",
                 [&] { exchange_on_gpus(bed.runtime(), {cpu}, {Table{}}, {"key"}, bed.options); });
    bed.runtime().delete_endpoint(cpu);
}

}  // namespace

std::vector<GpuTest> host_tests(std::size_t rows) {
    return {{"host tables: exchanged", [rows](Bed& bed) { exchanged(bed, rows); }},
            {"host tables: grouped", [rows](Bed& bed) { grouped(bed, rows); }},
            {"host tables: joined", [rows](Bed& bed) { joined(bed, rows); }},
            {"GPU tables: spilled", [rows](Bed& bed) { spilled(bed, rows); }},
            {"host tables: refused", [rows](Bed& bed) { refused(bed, rows); }}};
}

}  // namespace mgi::test::on_gpu
