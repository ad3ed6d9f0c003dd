#include "support/flow.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "support/flow_runtimes.hpp"
#include "support/hang_guard.hpp"
#include "support/order.hpp"

namespace mgi::test {

namespace {

using device::Group;
using device::ReceivedBatch;
using device::RoutingKind;
using device::SendResult;
using device::Shared;
using device::Status;

/// What one group sends, and what its threads receive.
struct GroupPart {
    std::unique_ptr<DeviceBatch> batch;
    std::unique_ptr<RowStructs> structs;
    std::vector<Run> runs;
    std::vector<std::vector<std::string>> got;  ///< by thread
    std::string failure;                        ///< written by thread 0
};

struct EndpointPart {
    device::Channel channel;
    FlowSetup const* setup = nullptr;
    std::vector<std::uint32_t> destination_ids;
    std::vector<GroupPart> groups;
    std::uint32_t index = 0;
};

/// One thread's part in the loop of its group. Decisions that change calls depend on results that are
/// equal in all threads of the group, and on a generator that is seeded alike.
class Loop {
public:
    Loop(EndpointPart& endpoint, Group const& group, Shared& shared)
        : setup_(*endpoint.setup),
          channel_(endpoint.channel),
          endpoint_(endpoint),
          part_(endpoint.groups[group.block]),
          group_(group),
          shared_(shared),
          alike_(setup_.seed * 1000 + endpoint.index * 64 + group.block),
          yields_(setup_.seed + endpoint.index * 997 + group.block * 31 + group.thread,
                  setup_.yields) {
        if (part_.batch != nullptr) batch_.emplace(*part_.batch);
    }

    void run() {
        bool const receives =
            channel_.is_destination() && (!setup_.options.ordered || group_.block == 0);
        bool flushed = !channel_.is_source();
        bool ended = !receives;
        for (device::u32 idle = 0; !(flushed && ended);) {
            yields_();
            bool moved = false;
            if (!flushed) flushed = send_or_flush(moved);
            if (!ended) ended = receive(moved);
            if (failed_) return;
            if (moved) {
                idle = 0;
            } else {
                device::backoff(idle++);
            }
        }
    }

private:
    bool fail(char const* call) {
        failed_ = true;
        if (group_.leads()) {
            part_.failure = std::string(call) + " failed, code " +
                            std::to_string(static_cast<int>(channel_.error()));
        }
        return true;
    }

    bool send_or_flush(bool& moved) {
        while (run_ < part_.runs.size() && part_.runs[run_].count == sent_) {
            ++run_;
            sent_ = 0;
        }
        if (run_ == part_.runs.size()) {
            Status const status = channel_.flush(group_, shared_);
            if (status == Status::Error) return fail("flush");
            return status == Status::Ok;
        }
        if (setup_.yields != 0 && alike_.one_in(40)) {
            if (channel_.push(group_, shared_) == Status::Error) return fail("push");
        }
        Run const& run = part_.runs[run_];
        std::uint64_t const left = run.count - sent_;
        std::uint64_t const offer = alike_.one_in(3) ? left : 1 + alike_.below(left);
        device::Batch const rows = batch_ ? batch_->slice(run.first + sent_, offer)
                                          : part_.structs->slice(run.first + sent_, offer);
        SendResult const result =
            run.destination != Run::kByRouting
                ? channel_.send_to(group_, shared_, endpoint_.destination_ids[run.destination],
                                   rows)
                : channel_.send(group_, shared_, rows);
        if (result.status == Status::Error) return fail("send");
        sent_ += result.rows;
        moved = moved || result.rows != 0;
        return false;
    }

    bool receive(bool& moved) {
        ReceivedBatch batch;
        Status const status = channel_.recv(group_, shared_, batch);
        if (status == Status::Error) return fail("recv");
        if (status == Status::End) return true;
        if (status == Status::Pending) return false;
        yields_();
        auto& got = part_.got[group_.thread];
        // Where order counts one thread takes the rows.
        std::uint32_t const readers = setup_.options.ordered ? 1 : group_.threads;
        for (std::uint32_t i = group_.thread; i < batch.rows && group_.thread < readers;
             i += readers) {
            got.push_back(encode_row(batch, setup_.schema, i));
        }
        if (setup_.slow_receiver_us != 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(setup_.slow_receiver_us));
        }
        channel_.release(group_, shared_, batch);
        moved = true;
        return false;
    }

    FlowSetup const& setup_;
    device::Channel channel_;
    EndpointPart& endpoint_;
    GroupPart& part_;
    Group const group_;
    Shared& shared_;
    Random alike_;
    Yields yields_;
    std::optional<DeviceBatch> batch_;
    std::size_t run_ = 0;
    std::uint64_t sent_ = 0;
    bool failed_ = false;
};

struct FlowKernel {
    EndpointPart* endpoint;
    void operator()(Group const& group, Shared& shared) const {
        Loop(*endpoint, group, shared).run();
    }
};

std::vector<Run> runs_of(FlowSetup const& setup, std::size_t rows, Random& random) {
    bool const direct = setup.routing.kind == RoutingKind::Direct;
    if (!direct && !setup.names) return {{0, rows}};
    std::vector<Run> runs;
    for (std::uint64_t at = 0; at < rows;) {
        std::uint64_t const count = 1 + random.below(std::min<std::uint64_t>(rows - at, 90));
        auto const to = static_cast<std::uint32_t>(random.below(setup.destinations));
        runs.push_back({at, count, direct || random.one_in(2) ? to : Run::kByRouting});
        at += count;
    }
    return runs;
}

/// The destination that the paper's modulo names.
std::size_t modulo_destination(Type const& type, Cell const& key, std::size_t destinations) {
    if (!key) return 0;
    std::int64_t value = 0;
    bool const is_signed = type.id <= TypeId::Int64 || type.id == TypeId::Date32;
    std::memcpy(&value, key->data(), key->size());
    if (is_signed && key->size() < 8 && ((*key).back() & 0x80) != 0) {
        value -= std::int64_t{1} << (8 * key->size());
    }
    auto const n = static_cast<std::int64_t>(destinations);
    if (type.id == TypeId::UInt64) {
        return static_cast<std::size_t>(static_cast<std::uint64_t>(value) % destinations);
    }
    return static_cast<std::size_t>(((value % n) + n) % n);
}

void check_partition(FlowSetup const& setup, FlowResult const& result,
                     std::vector<std::string> const& all) {
    std::vector<std::size_t> keys;
    for (auto const& key : setup.routing.keys) keys.push_back(setup.schema.index_of(key));
    std::vector<std::string> got;
    std::map<std::string, std::size_t> homes;
    for (std::size_t d = 0; d < result.at.size(); ++d) {
        for (std::string const& encoded : result.at[d]) {
            Row const row = decode(encoded);
            Row key;
            for (std::size_t const c : keys) key.push_back(row[c]);
            auto const [at, fresh] = homes.try_emplace(encode(key), d);
            ASSERT_TRUE(fresh || at->second == d) << "one key at two destinations";
            if (setup.routing.hash == Hash::Modulo) {
                ASSERT_EQ(modulo_destination(setup.schema[keys[0]].type, key[0], result.at.size()),
                          d);
            }
            got.push_back(encoded);
        }
    }
    EXPECT_TRUE(same_rows(got, all));
}

// Every row is at or behind the splitter ahead of its destination, and before the next one.
void check_range(FlowSetup const& setup, FlowResult const& result) {
    auto const& keys = setup.routing.order;
    for (std::size_t d = 0; d < result.at.size(); ++d) {
        for (std::string const& encoded : result.at[d]) {
            Row const row = decode(encoded);
            if (d != 0) {
                ASSERT_GE(compare_rows(setup.schema, keys, row, setup.splitters[d - 1]), 0)
                    << "destination " << d;
            }
            if (d + 1 != result.at.size()) {
                ASSERT_LT(compare_rows(setup.schema, keys, row, setup.splitters[d]), 0)
                    << "destination " << d;
            }
        }
    }
}

}  // namespace

void FlowSetup::route_by_range(Random& random, DataShape const& shape) {
    auto const keys = random_order(schema, random);
    splitters = random_rows(schema, destinations - 1, random, shape);
    for (Row& splitter : splitters) {
        auto const& source = rows[random.below(rows.size())];
        auto const& some = source[random.below(source.size())];
        if (!some.empty() && random.one_in(2)) splitter = some[random.below(some.size())];
    }
    sort_rows(schema, keys, splitters);
    routing = Routing::range(keys, make_batch(schema, splitters, random));
}

void FlowSetup::fill(std::size_t most, DataShape const& shape) {
    Random random(seed * 77 + 5);
    rows.assign(sources, {});
    for (auto& source : rows) {
        for (std::uint32_t g = 0; g < groups; ++g) {
            source.push_back(random_rows(schema, random.below(most + 1), random, shape));
        }
    }
}

std::chrono::milliseconds launch_limit() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(test_limit()) * 3 / 4;
}

void wait_for(std::vector<Launch>& launches, Channel const& channel) {
    auto const deadline = std::chrono::steady_clock::now() + launch_limit();
    std::exception_ptr first;
    for (Launch& launch : launches) {
        try {
            auto const left = deadline - std::chrono::steady_clock::now();
            launch.wait(std::chrono::duration_cast<std::chrono::milliseconds>(left));
        } catch (Error const& error) {
            if (!first) first = std::current_exception();
            if (error.code() != ErrorCode::Timeout) continue;
            print_all_stacks();
            channel.fail(ErrorCode::Stalled, "the test gave up");
            break;
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    }
    if (!first) return;
    // Kernels hold pointers into the test: none may outlive this.
    for (Launch& launch : launches) {
        try {
            launch.wait(std::chrono::seconds(10));
        } catch (...) {
            if (!launch.done()) std::abort();
        }
    }
    std::rethrow_exception(first);
}

FlowResult run_flow(FlowSetup const& setup) {
    FlowRuntimes runtimes(setup);
    auto const& endpoints = runtimes.endpoints;

    FlowResult result;
    result.at.resize(setup.destinations);
    result.direct.resize(setup.destinations);
    Random random(setup.seed + 12345);
    std::vector<std::unique_ptr<EndpointPart>> parts;
    for (std::uint32_t e = 0; e < endpoints.size(); ++e) {
        auto& part = *parts.emplace_back(std::make_unique<EndpointPart>());
        part.channel = runtimes.channel_of(e).on(endpoints[e].endpoint);
        part.setup = &setup;
        part.index = e;
        part.destination_ids = runtimes.destination_ids;
        part.groups.resize(setup.groups);
        for (std::uint32_t g = 0; g < setup.groups; ++g) {
            GroupPart& group = part.groups[g];
            group.got.resize(setup.threads);
            if (e >= setup.sources) continue;
            auto const& rows = setup.rows[e][g];
            if (setup.structs) {
                group.structs = std::make_unique<RowStructs>(setup.schema, rows);
            } else {
                group.batch = std::make_unique<DeviceBatch>(make_batch(setup.schema, rows, random));
            }
            group.runs = runs_of(setup, rows.size(), random);
            for (std::uint32_t d = 0; d < setup.destinations; ++d) {
                for (Run const& run : group.runs) {
                    if (run.destination != d && run.destination != Run::kByRouting) continue;
                    for (std::uint64_t i = run.first; i < run.first + run.count; ++i) {
                        result.direct[d].push_back(encode(rows[i]));
                    }
                }
            }
        }
    }
    LaunchOptions launch;
    launch.groups = setup.groups;
    launch.threads = setup.threads;
    std::vector<Launch> launches;
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        launches.push_back(runtimes.runtime_of(e).launch(endpoints[e].endpoint, launch,
                                                         FlowKernel{parts[e].get()}));
    }
    wait_for(launches, runtimes.channels[0]);
    // Each server counts what its sources have sent.
    for (std::uint32_t m = 0; m < runtimes.members.servers(); ++m) {
        auto const stats = runtimes.channels[m].stats();
        if (m == 0) result.stats = stats;
        if (m != 0) result.stats.rows += stats.rows;
    }
    for (std::size_t e = 0; e < parts.size(); ++e) {
        for (GroupPart& group : parts[e]->groups) {
            EXPECT_EQ(group.failure, "") << "at endpoint " << e;
            if (!parts[e]->channel.is_destination()) continue;
            auto& to = result.at[parts[e]->channel.destination()];
            for (auto const& got : group.got) to.insert(to.end(), got.begin(), got.end());
        }
    }
    runtimes.leave(setup.seed);
    return result;
}

void check_flow(FlowSetup const& setup, FlowResult const& result) {
    std::vector<std::string> all;
    for (auto const& source : setup.rows) {
        for (auto const& rows : source) {
            for (Row const& row : rows) all.push_back(encode(row));
        }
    }
    std::vector<std::string> got;
    for (auto const& rows : result.at) got.insert(got.end(), rows.begin(), rows.end());
    switch (setup.routing.kind) {
        case RoutingKind::Partition: check_partition(setup, result, all); break;
        case RoutingKind::Range: check_range(setup, result); [[fallthrough]];
        case RoutingKind::Balance: EXPECT_TRUE(same_rows(got, all)); break;
        case RoutingKind::Broadcast:
        case RoutingKind::Direct:
            for (std::size_t d = 0; d < result.at.size(); ++d) {
                EXPECT_TRUE(same_rows(result.at[d], result.direct[d])) << "destination " << d;
            }
            break;
    }
    EXPECT_EQ(result.stats.rows, all.size());
}

std::string describe(FlowSetup const& setup) {
    static char const* const kinds[]{"partition", "broadcast", "direct", "balance", "range"};
    std::string text = setup.options.by_reference ? "by reference, " : "by copy, ";
    text += kinds[static_cast<int>(setup.routing.kind)];
    if (setup.options.ordered) text += ", ordered";
    if (setup.options.layout == Layout::Rows) text += ", layout of rows";
    if (setup.structs) text += ", row structs";
    if (setup.names) text += ", some sends named";
    text += ", ";
    if (setup.processes != 1) text += std::to_string(setup.processes) + " processes, ";
    if (setup.servers != 1) text += std::to_string(setup.servers) + " servers, ";
    text += std::to_string(setup.sources) + " sources, " + std::to_string(setup.destinations) +
            " destinations, " + std::to_string(setup.groups) + " groups of " +
            std::to_string(setup.threads) + ", segments of " +
            std::to_string(setup.options.segment_rows) + ", " +
            std::to_string(setup.options.slots) + " slots, " +
            std::to_string(setup.options.credits) + " credits, tiles of " +
            std::to_string(setup.options.tile_rows) + ", (" + setup.schema.to_string() +
            "), seed " + std::to_string(setup.seed) + " + " + std::to_string(base_seed());
    return text;
}

}  // namespace mgi::test
