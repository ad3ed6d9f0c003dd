// Programs of several channels, the paper's Figure 3 among them.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>

#include "support/flow.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using device::Group;
using device::ReceivedBatch;
using device::Shared;
using device::Status;

std::vector<KeyValue> some_rows(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<KeyValue> rows(count);
    for (auto& row : rows) row = {random.between(-50, 50), random.between(0, 1000)};
    return rows;
}

/// The rows that block `block` of `blocks` sends.
std::pair<std::uint64_t, std::uint64_t> share(std::uint64_t rows, Group const& group) {
    std::uint64_t const first = rows * group.block / group.blocks;
    return {first, rows * (group.block + 1) / group.blocks - first};
}

struct PipelineCase {
    bool by_reference;
    std::uint32_t groups;
    std::uint32_t threads;
    std::uint32_t segment_rows;
    std::uint32_t slots;
};

class Pipeline : public ::testing::TestWithParam<PipelineCase> {
protected:
    Channel open(std::vector<Endpoint> const& from, std::vector<Endpoint> const& to,
                 Routing const& routing = Routing::partition("key")) {
        ChannelSpec spec;
        spec.sources = from;
        spec.destinations = to;
        spec.schema = numbered_schema();
        spec.routing = routing;
        spec.options.by_reference = GetParam().by_reference;
        spec.options.segment_rows = GetParam().segment_rows;
        spec.options.slots = spec.options.credits = GetParam().slots;
        spec.options.tile_rows = 32;
        return runtime_.create_channel(spec);
    }
    LaunchOptions shape() {
        LaunchOptions options;
        options.groups = GetParam().groups;
        options.threads = GetParam().threads;
        return options;
    }
    Runtime runtime_ = Runtime::local();
};

/// One table of sums an endpoint, filled by all of its groups.
struct Sums {
    std::mutex mutex;
    std::map<std::int64_t, std::int64_t> by_key;
};

/// Figure 3, as the paper prints it: send, receive while there is something, flush, receive to the end.
struct GroupByKernel {
    std::vector<KeyValue> const* part;
    Sums* sums;

    void add(Group const& group, ReceivedBatch const& batch) const {
        if (!group.leads()) return;
        std::lock_guard const lock(sums->mutex);
        auto const* keys = batch.column<std::int64_t>(0);
        auto const* values = batch.column<std::int64_t>(1);
        for (std::uint32_t i = 0; i < batch.rows; ++i) sums->by_key[keys[i]] += values[i];
    }
    void operator()(Group const& group, Shared& shared, device::Channel const& channel) const {
        auto const [first, count] = share(part->size(), group);
        ReceivedBatch batch;
        for (std::uint64_t sent = 0; sent != count;) {
            sent +=
                channel.send_rows(group, shared, part->data() + first + sent, count - sent).rows;
            while (channel.recv(group, shared, batch) == Status::Ok) {
                add(group, batch);
                channel.release(group, shared, batch);
            }
        }
        bool flushed = false;
        for (device::u32 idle = 0;;) {
            if (!flushed) flushed = channel.flush(group, shared) == Status::Ok;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Ok) {
                add(group, batch);
                channel.release(group, shared, batch);
                idle = 0;
            } else if (status == Status::Pending) {
                device::backoff(idle++);
            } else {
                ASSERT_EQ(status, Status::End);
                return;
            }
        }
    }
};

TEST_P(Pipeline, Figure3NeverDeadlocks) {
    std::vector<Endpoint> ends;
    for (int i = 0; i < 4; ++i) ends.push_back(runtime_.create_endpoint("cpu"));
    Channel const channel = open(ends, ends);
    std::vector<std::vector<KeyValue>> parts;
    std::map<std::int64_t, std::int64_t> expected;
    for (std::uint64_t e = 0; e < ends.size(); ++e) {
        // The printed loop never backs off, so tiny pools cost a time slice a row on few cores.
        std::size_t const rows = GetParam().segment_rows == 1 ? 60 : kSanitized ? 800 : 3000;
        parts.push_back(some_rows(rows, e));
        for (auto const& row : parts.back()) expected[row.key] += row.value;
    }
    std::vector<Sums> sums(ends.size());
    std::vector<Launch> launches;
    for (std::size_t e = 0; e < ends.size(); ++e) {
        launches.push_back(runtime_.launch(ends[e], shape(), GroupByKernel{&parts[e], &sums[e]},
                                           channel.on(ends[e])));
    }
    wait_for(launches, channel);
    std::map<std::int64_t, std::int64_t> got;
    for (auto const& part : sums) {
        for (auto const& [key, value] : part.by_key) {
            EXPECT_TRUE(got.emplace(key, value).second) << "key " << key << " at two endpoints";
        }
    }
    EXPECT_EQ(got, expected);
}

/// The middle of a pipeline: what comes from one channel goes on to another one, changed.
struct RelayKernel {
    std::vector<KeyValue>* scratch;  ///< by block

    void operator()(Group const& group, Shared& shared, device::Channel const& from,
                    device::Channel const& to) const {
        std::vector<KeyValue>& held = scratch[group.block];
        std::uint64_t sent = 0;
        std::uint64_t count = 0;
        bool ended = false;
        for (device::u32 idle = 0;;) {
            if (sent == count && !ended) {
                ReceivedBatch batch;
                Status const status = from.recv(group, shared, batch);
                ASSERT_NE(status, Status::Error);
                ended = status == Status::End;
                if (status == Status::Ok) {
                    if (group.leads()) {
                        held.resize(batch.rows);
                        for (std::uint32_t i = 0; i < batch.rows; ++i) {
                            held[i] = {batch.column<std::int64_t>(1)[i],
                                       batch.column<std::int64_t>(0)[i]};
                        }
                    }
                    count = batch.rows;
                    sent = 0;
                    from.release(group, shared, batch);
                    idle = 0;
                    continue;
                }
            }
            if (sent != count) {
                group.sync();
                auto const result = to.send_rows(group, shared, held.data() + sent, count - sent);
                ASSERT_NE(result.status, Status::Error);
                sent += result.rows;
                if (result.rows != 0) idle = 0;
            } else if (ended) {
                Status const status = to.flush(group, shared);
                ASSERT_NE(status, Status::Error);
                if (status == Status::Ok) return;
            }
            device::backoff(idle++);
        }
    }
};

TEST_P(Pipeline, TwoChannelsInARow) {
    std::vector<Endpoint> a{runtime_.create_endpoint("cpu"), runtime_.create_endpoint("cpu")};
    std::vector<Endpoint> b{runtime_.create_endpoint("cpu"), runtime_.create_endpoint("cpu")};
    std::vector<Endpoint> c{runtime_.create_endpoint("cpu")};
    Channel const first = open(a, b);
    Channel const second = open(b, c);
    std::vector<std::vector<KeyValue>> const parts{some_rows(1000, 1), some_rows(500, 2)};
    std::vector<Launch> launches;
    for (std::size_t e = 0; e < a.size(); ++e) {
        launches.push_back(runtime_.launch(
            a[e], shape(),
            [part = &parts[e]](Group const& group, Shared& shared, device::Channel const& to) {
                auto const [start, count] = share(part->size(), group);
                for (std::uint64_t sent = 0, idle = 0; sent != count;) {
                    auto const rows =
                        to.send_rows(group, shared, part->data() + start + sent, count - sent).rows;
                    sent += rows;
                    idle = rows == 0 ? idle + 1 : 0;
                    if (rows == 0) device::backoff(static_cast<device::u32>(idle));
                }
                EXPECT_EQ(to.flush_wait(group, shared), Status::Ok);
            },
            first.on(a[e])));
    }
    std::vector<std::vector<KeyValue>> scratch(b.size() * GetParam().groups);
    for (std::size_t e = 0; e < b.size(); ++e) {
        launches.push_back(runtime_.launch(b[e], shape(),
                                           RelayKernel{&scratch[e * GetParam().groups]},
                                           first.on(b[e]), second.on(b[e])));
    }
    std::mutex mutex;
    std::vector<std::string> got;
    launches.push_back(runtime_.launch(
        c[0], shape(),
        [&](Group const& group, Shared& shared, device::Channel const& from) {
            for (device::u32 idle = 0;;) {
                ReceivedBatch batch;
                Status const status = from.recv(group, shared, batch);
                if (status == Status::Ok) {
                    if (group.leads()) {
                        std::lock_guard const lock(mutex);
                        for (std::uint32_t i = 0; i < batch.rows; ++i) {
                            got.push_back(encode_row(batch, numbered_schema(), i));
                        }
                    }
                    from.release(group, shared, batch);
                    idle = 0;
                } else if (status == Status::Pending) {
                    device::backoff(idle++);
                } else {
                    ASSERT_EQ(status, Status::End);
                    return;
                }
            }
        },
        second.on(c[0])));
    wait_for(launches, second);
    std::vector<std::string> expected;
    for (auto const& part : parts) {
        for (auto const& row : part) expected.push_back(encode({cell(row.value), cell(row.key)}));
    }
    EXPECT_TRUE(same_rows(got, expected));
}

TEST_P(Pipeline, TwoChannelsAtOnceAndOnlySomeGroupsSend) {
    // Group 0 of each endpoint sends on both channels, all groups receive from both.
    std::vector<Endpoint> ends{runtime_.create_endpoint("cpu"), runtime_.create_endpoint("cpu")};
    Channel const apart = open(ends, ends);
    Channel const everywhere = open(ends, ends, Routing::broadcast());
    std::vector<KeyValue> const part = some_rows(700, 9);
    std::atomic<std::uint64_t> rows_apart{0};
    std::atomic<std::uint64_t> rows_everywhere{0};
    std::vector<Launch> launches;
    for (Endpoint const end : ends) {
        launches.push_back(runtime_.launch(
            end, shape(),
            [&](Group const& group, Shared& shared, device::Channel const& one,
                device::Channel const& two) {
                bool const sends = group.block == 0;
                Group const sender = group.slice(0, 1);
                device::Channel const channels[]{one, two};
                std::atomic<std::uint64_t>* const rows[]{&rows_apart, &rows_everywhere};
                std::uint64_t sent[]{0, 0};
                bool flushed[]{!sends, !sends};
                bool ended[]{false, false};
                for (device::u32 idle = 0; !(flushed[0] && flushed[1] && ended[0] && ended[1]);) {
                    for (int i = 0; i < 2; ++i) {
                        if (!flushed[i] && sent[i] != part.size()) {
                            sent[i] += channels[i]
                                           .send_rows(sender, shared, part.data() + sent[i],
                                                      part.size() - sent[i])
                                           .rows;
                        } else if (!flushed[i]) {
                            flushed[i] = channels[i].flush(sender, shared) == Status::Ok;
                        }
                        ReceivedBatch batch;
                        if (ended[i]) continue;
                        Status const status = channels[i].recv(group, shared, batch);
                        ASSERT_NE(status, Status::Error);
                        ended[i] = status == Status::End;
                        if (status == Status::Ok) {
                            if (group.leads()) rows[i]->fetch_add(batch.rows);
                            channels[i].release(group, shared, batch);
                            idle = 0;
                        }
                    }
                    device::backoff(idle++);
                }
            },
            apart.on(end), everywhere.on(end)));
    }
    wait_for(launches, apart);
    EXPECT_EQ(rows_apart.load(), 2 * part.size());
    EXPECT_EQ(rows_everywhere.load(), 4 * part.size());
}

INSTANTIATE_TEST_SUITE_P(
    Pools, Pipeline,
    ::testing::Values(PipelineCase{true, 1, 1, 1, 1}, PipelineCase{true, 4, 2, 3, 1},
                      PipelineCase{true, 8, 1, 100, 2}, PipelineCase{false, 1, 1, 1, 1},
                      PipelineCase{false, 4, 2, 3, 1}, PipelineCase{false, 8, 1, 100, 2}));

}  // namespace
}  // namespace mgi::test
