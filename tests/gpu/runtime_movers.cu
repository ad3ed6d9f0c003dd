// How fast movers are between a GPU and the host, and between two GPUs where there are two, beside the kernels that
// wait for them: a segment there and a few rows back, and a stream of segments.
#include <algorithm>
#include <numeric>

#include "../bench/gpu/result.hpp"
#include "gpu/runtime_rig.hpp"

namespace mgi::test::gpu {

namespace {

/// 64 bytes.
struct WideStruct {
    i64 key;
    i64 rest[7];
};
constexpr u32 kAnswer = 64;  // rows back, at most

Schema rows_of_64_bytes() {
    std::vector<Field> fields{{"key", int64()}};
    for (int i = 0; i < 7; ++i) fields.push_back({std::string(1, char('a' + i)), int64()});
    return Schema{fields};
}

/// Sends `rows` rows at once, publishes them, and waits for the answer; `rounds` times.
struct Ping {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel out,
                           device::Channel in, WideStruct const* data, u32 rows, u32 answer,
                           u32 rounds) const {
        for (u32 round = 0; round < rounds; ++round) {
            for (u64 sent = 0; sent < rows;) {
                auto const result = out.send_rows(group, shared, data + sent, rows - sent);
                if (result.status == Status::Error) return;
                sent += result.rows;
            }
            while (out.push(group, shared) == Status::Pending) device::backoff(0);
            if (!take(group, shared, in, answer)) return;
        }
        (void)out.flush_wait(group, shared);
        (void)take(group, shared, in, ~u64(0));
    }
    /// Receives so many rows; false when there are no more.
    static MGI_HD bool take(Group const& group, Shared& shared, device::Channel const& in,
                            u64 rows) {
        for (u64 got = 0; got < rows;) {
            device::ReceivedBatch batch;
            Status const status = in.recv(group, shared, batch).status;
            if (status == Status::Pending) continue;
            if (status != Status::Ok) return false;
            got += batch.rows;
            in.release(group, shared, batch);
        }
        return true;
    }
};

/// Answers each `rows` rows with a few, `answer`.
struct Pong {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel in,
                           device::Channel out, WideStruct const* data, u32 rows,
                           u32 answer) const {
        while (Ping::take(group, shared, in, rows)) {
            for (u64 sent = 0; sent < answer;) {
                auto const result = out.send_rows(group, shared, data + sent, answer - sent);
                if (result.status == Status::Error) return;
                sent += result.rows;
            }
            while (out.push(group, shared) == Status::Pending) device::backoff(0);
        }
        (void)out.flush_wait(group, shared);
    }
};

/// Sends the same rows again and again.
struct Pour {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel out,
                           WideStruct const* data, u32 at_once, u64 rows) const {
        u64 const mine = rows / group.blocks;
        for (u64 sent = 0; sent < mine;) {
            u64 const from = sent % at_once;
            auto const result = out.send_rows(group, shared, data + from,
                                              device::min_of<u64>(at_once - from, mine - sent));
            if (result.status == Status::Error) return;
            sent += result.rows;
        }
        (void)out.flush_wait(group, shared);
    }
};

/// The same, each thread for itself, through stage buffers.
struct PourOneByOne {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel out,
                           WideStruct const* data, u32 at_once, u64 rows) const {
        u64 const mine = rows / (u64(group.blocks) * group.threads);
        u64 const first = u64(group.block) * group.threads + group.thread;
        for (u64 sent = 0; sent < mine;) {
            auto const result = out.send_row(group, data[(first + sent) % at_once]);
            if (result.status == Status::Error) return;
            sent += result.rows;
        }
        group.sync();
        (void)out.flush_wait(group, shared);
    }
};

struct Drain {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel in) const {
        (void)Ping::take(group, shared, in, ~u64(0));
    }
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

LaunchOptions shape_of(std::string const& device, u32 groups) {
    LaunchOptions shape;
    shape.groups = groups;
    shape.threads = is_gpu(device) ? 256 : 1;
    return shape;
}

struct Ends {
    Ends(std::string const& from, std::string const& to) {
        there.sources = back.destinations = {runtime.create_endpoint(named(from))};
        there.destinations = back.sources = {runtime.create_endpoint(named(to))};
        there.schema = back.schema = rows_of_64_bytes();
        there.routing = back.routing = Routing::partition("key");
        there.options.layout = back.options.layout = Layout::Rows;
        there.options.stall_limit = back.options.stall_limit = settings.limit() / 2;
    }
    Runtime runtime = runtime_of_tests();
    ChannelSpec there;
    ChannelSpec back;
};

/// Seconds of a round.
double round_trip(std::string const& from, std::string const& to, u32 bytes, u32 rounds) {
    Ends ends(from, to);
    u32 const rows = bytes / u32(sizeof(WideStruct));
    u32 const answer_rows = std::min(rows, kAnswer);
    ends.there.options.segment_rows = std::max(rows, kAnswer);
    ends.there.options.slots = 4;
    ends.back.options.segment_rows = kAnswer;
    Channel const there = ends.runtime.create_channel(ends.there);
    Channel const back = ends.runtime.create_channel(ends.back);
    Endpoint const near = ends.there.sources[0];
    Endpoint const far = ends.there.destinations[0];
    Room<WideStruct> const here(from, rows);
    Room<WideStruct> const answer(to, kAnswer);
    Launch pong =
        ends.runtime.launch(far, shape_of(to, 1), Pong{}, there.on(far), back.on(far),
                            static_cast<WideStruct const*>(answer.get()), rows, answer_rows);
    auto const start = Clock::now();
    Launch ping =
        ends.runtime.launch(near, shape_of(from, 1), Ping{}, there.on(near), back.on(near),
                            static_cast<WideStruct const*>(here.get()), rows, answer_rows, rounds);
    ping.wait(settings.limit());
    double const seconds = seconds_since(start);
    pong.wait(settings.limit());
    return seconds / rounds;
}

/// GB/s of a stream.
double stream(std::string const& from, std::string const& to, u32 segment_bytes, u64 bytes,
              u32 gpu_groups) {
    Ends ends(from, to);
    u32 const rows = segment_bytes / u32(sizeof(WideStruct));
    ends.there.options.segment_rows = rows;
    ends.there.options.slots = segment_bytes < (1u << 20) ? 32 : 16;
    ends.there.options.credits = ends.there.options.slots;
    Channel const channel = ends.runtime.create_channel(ends.there);
    Endpoint const near = ends.there.sources[0];
    Endpoint const far = ends.there.destinations[0];
    u32 const at_once = 1u << 14;
    Room<WideStruct> const here(from, at_once);
    u32 const near_groups = is_gpu(from) ? gpu_groups : 4;
    u32 const far_groups = is_gpu(to) ? gpu_groups : 2;
    Launch receiving = ends.runtime.launch(far, shape_of(to, far_groups), Drain{}, channel.on(far));
    u64 const all = bytes / sizeof(WideStruct);
    auto const start = Clock::now();
    Launch sending =
        ends.runtime.launch(near, shape_of(from, near_groups), Pour{}, channel.on(near),
                            static_cast<WideStruct const*>(here.get()), at_once, all);
    sending.wait(settings.limit());
    receiving.wait(settings.limit());
    double const seconds = seconds_since(start);
    return double(channel.stats().rows) * sizeof(WideStruct) / seconds / 1e9;
}

/// GB/s within a GPU, through stage buffers and so many sorters.
double one_by_one(u32 groups, u32 sorters, u64 bytes) {
    Ends ends("cuda:0", "cuda:0");
    ends.there.options.layout = Layout::Columns;
    ends.there.options.sorters = sorters;
    Channel const channel = ends.runtime.create_channel(ends.there);
    Endpoint const near = ends.there.sources[0];
    Endpoint const far = ends.there.destinations[0];
    u32 const at_once = 1u << 14;
    std::vector<WideStruct> rows(at_once);
    for (u32 i = 0; i < at_once; ++i) rows[i].key = key_of(i);
    Room<WideStruct> const here("cuda:0", rows);
    Launch receiving = ends.runtime.launch(far, shape_of("cuda:0", 16), Drain{}, channel.on(far));
    auto const start = Clock::now();
    Launch sending = ends.runtime.launch(
        near, shape_of("cuda:0", groups), PourOneByOne{}, channel.on(near),
        static_cast<WideStruct const*>(here.get()), at_once, bytes / sizeof(WideStruct));
    sending.wait(settings.limit());
    receiving.wait(settings.limit());
    double const seconds = seconds_since(start);
    return double(channel.stats().rows) * sizeof(WideStruct) / seconds / 1e9;
}

}  // namespace

std::vector<std::string> measure_movers() {
    std::vector<std::string> lines;
    std::vector<std::pair<std::string, std::string>> ways{{"cuda:0", "cpu:0"}, {"cpu:0", "cuda:0"}};
    if (gpus_of_tests() > 1) ways.emplace_back("cuda:0", "cuda:1");
    for (auto const& [from, to] : ways) {
        auto const add = [&, from = from, to = to](char const* name, u32 segment,
                                                   auto const& measure) {
            bench::Result result;
            result.name = name;
            result.with("from", from).with("to", to).with("segment_bytes", segment);
            try {
                measure(result);
            } catch (std::exception const& error) {
                result.error = error.what();
            }
            lines.push_back(bench::json_of(result));
        };
        for (u32 const segment : {64u, 64u << 10, 256u << 10, 1u << 20, 4u << 20}) {
            add("mover_latency", segment, [&, from = from, to = to](bench::Result& result) {
                (void)round_trip(from, to, segment, 3);
                std::vector<double> rounds;
                for (int i = 0; i < 3; ++i) rounds.push_back(round_trip(from, to, segment, 100));
                std::sort(rounds.begin(), rounds.end());
                result.figure("round_trip_us", rounds[1] * 1e6);
            });
        }
        for (u32 const segment : {256u << 10, 1u << 20, 4u << 20}) {
            add("mover_stream", segment, [&, from = from, to = to](bench::Result& result) {
                std::vector<double> rates;
                bool const far = is_gpu(from) && is_gpu(to);
                u64 const bytes = settings.cpu ? u64(1) << 28 : u64(far ? 16 : 2) << 30;
                u32 const groups = far ? 64 : 16;
                for (int i = 0; i < 3; ++i)
                    rates.push_back(stream(from, to, segment, bytes, groups));
                std::sort(rates.begin(), rates.end());
                result.best_gbps = rates[2];
                result.median_gbps = rates[1];
            });
        }
    }
    for (u32 const sorters : {16u, 48u}) {
        bench::Result result;
        result.name = "stage_buffers";
        u32 const groups = settings.cpu ? 1 : 48;
        result.with("groups", groups).with("sorters", sorters).with("row_bytes", 64);
        try {
            u64 const bytes = settings.cpu ? u64(1) << 24 : u64(1) << 28;
            std::vector<double> rates;
            for (int i = 0; i < 3; ++i) {
                rates.push_back(one_by_one(groups, settings.cpu ? 1 : sorters, bytes));
            }
            std::sort(rates.begin(), rates.end());
            result.best_gbps = rates[2];
            result.median_gbps = rates[1];
        } catch (std::exception const& error) {
            result.error = error.what();
        }
        lines.push_back(bench::json_of(result));
    }
    return lines;
}

}  // namespace mgi::test::gpu
