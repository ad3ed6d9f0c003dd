// Few rows: all come to one endpoint, which does the work. On threads of the host.
#include <gtest/gtest.h>

#include <memory>

#include "operators/gpu/few_rows.hpp"
#include "operators/gpu/group_by.hpp"
#include "operators/gpu/join.hpp"
#include "operators/gpu/sort.hpp"
#include "operators/host_operators.hpp"
#include "operators/host_pool.hpp"
#include "operators/host_tables.hpp"
#include "operators/host_windows.hpp"
#include "operators/job.hpp"
#include "operators/join_kinds.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu::few_rows_test {
namespace {

using namespace mgi::test::plain;
using test::Came;
using test::Job;
using test::Random;
using test::ThreadAsProcess;
using F = AggregateFunction;
using Parts = std::vector<std::vector<GpuTable>>;  // by side

Schema const kSchema{{"key", int64(), true},         {"unused", fixed_size_binary(5)},
                     {"x", int32(), true},           {"flag", boolean()},
                     {"maybe", boolean(), true},     {"name", string(), true},
                     {"code", fixed_size_binary(3)}, {"price", decimal128(20, 2), true}};

/// Parts that begin anywhere in their columns, some of them empty.
std::vector<GpuTable> deal(PlainTable const& table, std::size_t endpoints, Random& random) {
    std::vector<std::size_t> cuts{0, table.rows.size()};
    while (cuts.size() <= endpoints) cuts.push_back(random.below(table.rows.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    GpuTable const all = on_host(batch_of(table, 0, table.rows.size()));
    std::vector<GpuTable> parts;
    for (std::size_t e = 0; e < endpoints; ++e) {
        parts.push_back(random.one_in(2)
                            ? all.slice(i64(cuts[e]), i64(cuts[e + 1] - cuts[e]))
                            : on_host(batch_of(table, cuts[e], cuts[e + 1] - cuts[e])));
    }
    return parts;
}

std::size_t largest_of(Parts const& parts) {
    std::size_t best = 0;
    i64 most = 0;
    for (std::size_t e = 0; e < parts[0].size(); ++e) {
        i64 rows = 0;
        for (auto const& side : parts) rows += side[e].rows;
        if (rows > most) {
            most = rows;
            best = e;
        }
    }
    return best;
}

/// An operator, what it looks at, and what comes of it.
struct Call {
    std::string what;
    ColumnsOfSides columns;
    std::function<std::vector<GpuTable>(Operation&, Sides const&)> work;
    std::function<Rows(std::vector<PlainTable> const&)> expected;
    std::vector<bool> rounded = {};
};

Call group_call(std::string const& key) {
    std::vector<Aggregate> const wanted{
        {F::Count, "", "rows"},      {F::Sum, "x", "sum"},       {F::Max, "name", "max"},
        {F::First, "flag", "any"},   {F::Sum, "price", "price"}, {F::CountDistinct, "code", "n"},
        {F::Count, "maybe", "maybe"}};
    return {"group_by",
            {columns_of({key}, wanted)},
            [=](Operation& operation, Sides const& sides) {
                return group_by_on(operation, sides[0], {key}, wanted);
            },
            [=](auto const& tables) { return group_by(tables[0], {key}, wanted); }};
}

Call join_call(std::string const& key, JoinKind kind) {
    bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
    std::vector<std::string> const left{key, "x", "flag", "maybe", "code", "price"};
    std::vector<std::string> const right =
        pairs ? std::vector<std::string>{"x", "name"} : std::vector<std::string>{};
    JoinSpec const spec{{key}, {key}, left, right, kind};
    std::set<std::string> of_right(right.begin(), right.end());
    of_right.insert(key);
    return {"join",
            {{left.begin(), left.end()}, of_right},
            [=](Operation& operation, Sides const& sides) {
                return join_on(operation, sides[0], sides[1], spec);
            },
            [=](auto const& tables) {
                return join(tables[0], tables[1], spec.left_keys, spec.right_keys, left, right,
                            kind);
            }};
}

Call sort_call(std::string const& key) {
    return {"sort", ColumnsOfSides(1),
            [=](Operation& operation, Sides const& sides) {
                return sort_on(operation, sides[0], {{key}});
            },
            [](auto const& tables) { return tables[0].rows; }};
}

Sides sides_of(Operation& operation, Parts const& parts) {
    Sides sides;
    for (auto const& side : parts) sides.emplace_back(operation, side);
    return sides;
}

Rows rows_of_all(std::vector<GpuTable> const& tables) {
    Rows rows;
    for (GpuTable const& table : tables) {
        for (Row& row : rows_of(batch_of_result(table))) rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<PlainTable> random_tables(std::size_t sides, Random& random) {
    std::vector<PlainTable> tables;
    for (std::size_t s = 0; s < sides; ++s) {
        tables.push_back(random_table(kSchema, random.below(900), 300, random.below(1000)));
    }
    return tables;
}

std::vector<Call> calls_by(std::string const& key, Random& random) {
    return {group_call(key), join_call(key, test::kKinds[random.below(std::size(test::kKinds))]),
            sort_call(key)};
}

class FewRowsProperty : public ::testing::TestWithParam<int> {};

TEST_P(FewRowsProperty, OneEndpointHasTheWholeResult) {
    Random random(100 + u64(GetParam()));
    for (Call const& call : calls_by(random.one_in(2) ? "key" : "name", random)) {
        SCOPED_TRACE(call.what);
        std::size_t const endpoints = 2 + random.below(4);
        Runtime runtime = runtime_of_cpus(2);
        std::vector<Endpoint> all;
        for (std::size_t e = 0; e < endpoints; ++e) {
            all.push_back(runtime.create_endpoint("cpu:" + std::to_string(e % 2)));
        }
        auto const tables = random_tables(call.columns.size(), random);
        Parts parts;
        for (PlainTable const& table : tables) parts.push_back(deal(table, endpoints, random));
        auto const processes = processes_of(runtime, all);
        OperatorReport report;
        Operation operation(*processes, call.what, runtime, all, {},
                            places_on_host(1 + u32(random.below(2))), &report);
        Sides const sides = sides_of(operation, parts);
        FewRows few(operation, sides, call.columns);
        ASSERT_TRUE(few.are_few());
        auto const results = few.run(runtime, &report, call.work);
        ASSERT_TRUE(results.has_value());
        expect_same(sorted(rows_of_all(*results)), sorted(call.expected(tables)), call.rounded);
        for (std::size_t e = 0; e < endpoints; ++e) {
            EXPECT_TRUE(e == largest_of(parts) || (*results)[e].rows == 0) << e;
            EXPECT_EQ((*results)[e].schema, (*results)[0].schema);
            EXPECT_EQ((*results)[e].gpu, operation.place(e).gpu());
            for (std::size_t c = 0; c < (*results)[0].columns.size(); ++c) {
                EXPECT_EQ((*results)[e].columns[c].encoding, (*results)[0].columns[c].encoding);
            }
        }
        EXPECT_TRUE(report.at_one);
        EXPECT_EQ(report.phases.at(0).name, "collect");
        std::size_t rows = 0;
        for (PlainTable const& table : tables) rows += table.rows.size();
        EXPECT_EQ(report.rows, rows);
        for (OperatorLink const& link : report.links) {
            EXPECT_EQ(link.to, largest_of(parts));
            EXPECT_NE(link.from, link.to);
        }
        EXPECT_GT(report.peak_bytes, 0);
    }
}

/// Where there are windows, where a process cannot open them, and where there are none.
enum class Share { Windows, NotTheFirst, Nothing };

TEST_P(FewRowsProperty, AmongProcesses) {
    Random random(300 + u64(GetParam()));
    std::size_t const processes = 2 + random.below(2);
    auto const owners = test::random_owners(random, processes, random.below(3));
    Share const share = Share(GetParam() % 3);
    for (Call const& call : calls_by(random.one_in(2) ? "key" : "name", random)) {
        SCOPED_TRACE(call.what);
        Job job(processes, owners);
        auto const tables = random_tables(call.columns.size(), random);
        Parts parts;
        for (PlainTable const& table : tables) parts.push_back(deal(table, owners.size(), random));
        auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
            bool const opens = share == Share::Windows || me != 0;
            auto const windows = std::make_shared<HostWindows>(opens);
            process.windows_of = [&]() -> std::shared_ptr<GpuWindows> {
                return share == Share::Nothing ? nullptr : windows;
            };
            Parts own = parts;
            for (auto& side : own) {
                for (std::size_t e = 0; e < side.size(); ++e) {
                    if (!process.mine(job.endpoints()[e])) side[e] = {};
                }
            }
            OperatorReport report;
            Operation operation(process, call.what, job.runtime(), job.endpoints(), {},
                                places_on_host(1), &report);
            auto const results = operation.perform([&] {
                Sides const sides = sides_of(operation, own);
                FewRows few(operation, sides, call.columns);
                EXPECT_EQ(few.are_few(), share != Share::Nothing);
                if (share == Share::Nothing) return call.work(operation, sides);
                auto at_one = few.run(job.runtime(), &report, call.work);
                EXPECT_EQ(at_one.has_value(), share == Share::Windows);
                if (!at_one) return call.work(operation, sides);
                for (std::size_t e = 0; e < owners.size(); ++e) {
                    EXPECT_TRUE(e == largest_of(parts) || (*at_one)[e].rows == 0) << e;
                }
                return std::move(*at_one);
            });
            EXPECT_EQ(report.at_one, share == Share::Windows);
            EXPECT_TRUE(windows->all_closed());
            return tables_of(results);
        });
        Rows rows;
        for (Table const& table : job.result(came)) {
            for (RecordBatch const& batch : table.batches) {
                for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
            }
        }
        expect_same(sorted(rows), sorted(call.expected(tables)), call.rounded);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FewRowsProperty, ::testing::Range(0, test::kSanitized ? 6 : 24));

/// Two endpoints of this process with rows of a key and a text each.
class FewRowsOfTwo : public ::testing::Test {
protected:
    [[nodiscard]] bool are_few() {
        auto const processes = processes_of(runtime_, all_);
        Operation operation(*processes, "sort", runtime_, all_, options_, places_on_host(1));
        Parts const parts{parts_};
        Sides const sides = sides_of(operation, parts);
        return FewRows(operation, sides, ColumnsOfSides(1)).are_few();
    }

    PlainTable const table_ =
        random_table(Schema{{"key", int64()}, {"name", string()}}, 100, 50, 7);
    std::vector<GpuTable> parts_{on_host(batch_of(table_, 0, 40)),
                                 on_host(batch_of(table_, 40, 60))};
    Runtime runtime_ = runtime_of_cpus(2);
    std::vector<Endpoint> all_{runtime_.create_endpoint("cpu:0"),
                               runtime_.create_endpoint("cpu:1")};
    OperatorOptions options_;
};

TEST_F(FewRowsOfTwo, AreAsManyAsTheOptionSays) {
    u64 characters = 0;
    for (Row const& row : rows_of_all(parts_)) characters += text_of_word(row[1].word).size();
    u64 const bytes = 100 * (8 + string().row_width()) + characters;
    options_.one_endpoint_bytes = bytes;
    EXPECT_TRUE(are_few());
    options_.one_endpoint_bytes = bytes - 1;
    EXPECT_FALSE(are_few());
    options_.one_endpoint_bytes = 0;
    EXPECT_FALSE(are_few());
    options_ = {};
    EXPECT_TRUE(are_few());
    options_.receive_limit = 4 * bytes - 1;
    EXPECT_FALSE(are_few());
    options_.receive_limit = 4 * bytes;
    EXPECT_TRUE(are_few());
    options_ = {};
    options_.by_reference = false;
    EXPECT_FALSE(are_few());
}

/// What is put into places, in the order in which it is.
class RecordingPlace final : public HostPlace {
public:
    RecordingPlace(PlaceOptions const& options, std::vector<std::string>& events)
        : HostPlace(1, 1, options), number_(std::to_string(next()++)), events_(events) {}
    void follow(Place& other) override {
        events_.push_back(number_ + " follows " + static_cast<RecordingPlace&>(other).number_);
    }
    static int& next() {
        static int number = 0;
        return number;
    }

protected:
    void run_groups(u32 scratch, Body const& body) override {
        events_.push_back(number_ + " runs");
        HostPlace::run_groups(scratch, body);
    }

private:
    std::string const number_;
    std::vector<std::string>& events_;
};

// GPUs write at home when home's memory is its own, and home works when they have written. They do not wait for each other.
TEST_F(FewRowsOfTwo, AreBroughtBetweenWhatHomeDoes) {
    all_.push_back(runtime_.create_endpoint("cpu:0"));
    Parts const parts{{parts_[0], parts_[1], parts_[0]}};  // the middle one is home
    std::vector<std::string> events;
    RecordingPlace::next() = 0;
    auto const processes = processes_of(runtime_, all_);
    Operation operation(*processes, "sort", runtime_, all_, options_,
                        [&](Device const&, PlaceOptions const& options) {
                            return std::make_shared<RecordingPlace>(options, events);
                        });
    Sides const sides = sides_of(operation, parts);
    FewRows few(operation, sides, ColumnsOfSides(1));
    ASSERT_TRUE(few.are_few());
    auto const nothing = [&](Operation& here, Sides const& of_home) {
        events.emplace_back("works");
        return std::vector<GpuTable>(here.size(), no_rows(of_home[0].schema()));
    };
    ASSERT_TRUE(few.run(runtime_, nullptr, nothing));
    events.erase(std::find(events.begin() + 7, events.end(), "1 runs"),
                 std::find(events.begin(), events.end(), "works"));  // texts are laid out
    EXPECT_EQ(events, (std::vector<std::string>{"0 follows 1", "2 follows 1", "0 runs", "1 runs",
                                                "2 runs", "1 follows 0", "1 follows 2", "works"}));
}

// Texts may grow between their counting and their copying.
TEST_F(FewRowsOfTwo, AreRefusedWhereTextsChange) {
    auto const processes = processes_of(runtime_, all_);
    Operation operation(*processes, "sort", runtime_, all_, options_, places_on_host(1));
    Parts const parts{parts_};
    Sides const sides = sides_of(operation, parts);
    FewRows few(operation, sides, ColumnsOfSides(1));
    ASSERT_TRUE(few.are_few());
    GpuColumn const& names = parts_[0].columns[1];
    ASSERT_EQ(names.encoding, Encoding::Offsets64);
    static_cast<i64*>(const_cast<void*>(names.values))[40] -= 1;
    test::expect_error(ErrorCode::InvalidArgument, {"keys or texts of part 0 changed"},
                       [&] { (void)few.run(runtime_, nullptr, sort_call("key").work); });
}

// Only one process works; what fails there fails in all.
TEST(FewRowsOfProcesses, FailInAllWhereTheWorkFails) {
    PlainTable const table = random_table(kSchema, 100, 30, 3);
    for (std::size_t home = 0; home < 2; ++home) {
        Job job(2, {0, 1});
        auto came = job.run([&](ThreadAsProcess& process, std::size_t me) {
            auto const windows = std::make_shared<HostWindows>(true);
            process.windows_of = [&] { return windows; };
            Parts own{std::vector<GpuTable>(2)};
            own[0][me] = on_host(batch_of(table, 0, me == home ? 60 : 40));
            Operation operation(process, "sort", job.runtime(), job.endpoints(), {},
                                places_on_host(1));
            return tables_of(operation.perform([&] {
                Sides const sides = sides_of(operation, own);
                FewRows few(operation, sides, ColumnsOfSides(1));
                EXPECT_TRUE(few.are_few());
                auto const fails = [](Operation&, Sides const&) -> std::vector<GpuTable> {
                    throw Error(ErrorCode::OutOfMemory, "nothing is left");
                };
                return std::move(*few.run(job.runtime(), nullptr, fails));
            }));
        });
        for (std::string const& text : test::texts_of(came, ErrorCode::OutOfMemory)) {
            test::expect_words(text, {"nothing is left"});
        }
    }
}

// The caller has a stream on one GPU alone, and rows come to another one.
TEST_F(FewRowsOfTwo, NeedNoStreamWhereTheyCome) {
    int stream = 0;
    options_.gpu_streams = {{runtime_.devices()[all_[0].device].ordinal, &stream}};
    auto const processes = processes_of(runtime_, all_);
    Operation operation(*processes, "sort", runtime_, all_, options_, places_on_host(1));
    Parts const parts{parts_};  // of which endpoint 1 has the most rows
    Sides const sides = sides_of(operation, parts);
    FewRows few(operation, sides, ColumnsOfSides(1));
    ASSERT_TRUE(few.are_few());
    EXPECT_EQ(few.run(runtime_, nullptr, sort_call("key").work)->at(1).rows, 100);
}

TEST_F(FewRowsOfTwo, MayBeNone) {
    for (GpuTable& part : parts_) part = part.slice(0, 0);
    auto const processes = processes_of(runtime_, all_);
    OperatorReport report;
    Operation operation(*processes, "sort", runtime_, all_, {}, places_on_host(1), &report);
    Parts const parts{parts_};
    Sides const sides = sides_of(operation, parts);
    FewRows few(operation, sides, ColumnsOfSides(1));
    ASSERT_TRUE(few.are_few());
    auto const results = few.run(runtime_, &report, sort_call("key").work);
    ASSERT_EQ(results->size(), 2);
    for (GpuTable const& result : *results) {
        EXPECT_EQ(result.rows, 0);
        EXPECT_EQ(result.schema, table_.schema);
    }
}

}  // namespace
}  // namespace mgi::operators::on_gpu::few_rows_test
