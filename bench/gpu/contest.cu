// contest: one exchange by MGI, by what programs do without it, and by what the links give, in turn in one run. Words say
// which, as `gpus=4 pattern=exchange theta=1 layout=rows row_bytes=32 rows=67108864 processes=1 peers=nccl,ucx,copy rounds=9`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contest.hpp"
#include "runtime_exchange.hpp"

namespace mgi::bench {
namespace {

using namespace exchanges;

/// What a call is about.
struct Order {
    Load load;
    bool processes = false;  ///< of MGI, one for each GPU
    u32 rounds = 9;
    std::vector<std::string> peers{"nccl", "ucx", "copy"};
};

std::vector<std::string> split(std::string const& text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t const end = std::min(text.find(',', at), text.size());
        if (end > at) parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

Order order_of(Context const& context) {
    Order order;
    std::vector<std::string> words{"gpus=" + std::to_string(connected_gpus(8)),
                                   "rows=" + std::to_string(context.quick() ? 8 << 20 : 64 << 20)};
    for (std::string const& word : context.words()) {
        std::string const value = word.substr(std::min(word.find('='), word.size() - 1) + 1);
        if (word.starts_with("processes=")) {
            order.processes = value != "0";
        } else if (word.starts_with("rounds=")) {
            order.rounds = u32(std::max(1, std::atoi(value.c_str())));
        } else if (word.starts_with("peers=")) {
            order.peers = split(value);
        } else {
            words.push_back(word);
        }
    }
    order.load = load_of(words);
    auto const there = u32(connected_gpus(int(order.load.gpus)));
    require(there == order.load.gpus,
            "only " + std::to_string(there) + " GPUs are here and reach each other's memory");
    require(!order.processes || order.load.gpus > 1, "processes=1 needs 2 GPUs");
    return order;
}

/// GB/s of each round, by who ran.
using Rates = std::map<std::string, std::vector<double>>;

/// Those who take part, and why others do not.
struct Field {
    std::vector<std::pair<std::string, std::unique_ptr<Contestant>>> all;
    std::vector<std::pair<std::string, std::string>> missing;

    void add(std::string const& name, std::function<std::unique_ptr<Contestant>()> const& make) {
        try {
            all.emplace_back(name, make());
        } catch (std::exception const& error) {
            missing.emplace_back(name, error.what());
        }
    }
    /// Those who fail at it take part no more.
    void each(std::function<void(std::string const&, Contestant&)> const& work) {
        std::erase_if(all, [&](auto const& one) {
            try {
                work(one.first, *one.second);
                return false;
            } catch (std::exception const& error) {
                missing.emplace_back(one.first, error.what());
                return true;
            }
        });
    }
};

Field field_of(Order const& order, peers::Gpus const& gpus) {
    Load const& load = order.load;
    Field field;
    if (load.pattern == Pattern::Exchange && load.layout == Layout::Rows) {
        field.add("reference", [&] { return by_stream(load, gpus); });
    }
    for (std::string const& peer : order.peers) {
        if (load.gpus == 1) {
            field.missing.emplace_back(peer, "carries rows between GPUs, of which this has one");
        } else if (peer == "nccl") {
            field.add(peer, [&] { return by_nccl(load, gpus); });
        } else if (peer == "ucx") {
            field.add(peer, [&] { return by_ucx(load); });
        } else if (peer == "copy") {
            field.add("copy_engines", [&] { return by_copies(load, gpus); });
        } else {
            require(false, "no such peer: " + peer);
        }
    }
    return field;
}

/// The median of what each round says: both ran in it.
double ratio(std::vector<double> const& ours, std::vector<double> const& theirs) {
    std::vector<double> each;
    for (std::size_t i = 0; i < ours.size(); ++i) each.push_back(ours[i] / theirs[i]);
    return median(each);
}

Result result_of(Order const& order, Rates const& rates, Series const& series) {
    Load const& load = order.load;
    Result result;
    result.with("gpus", load.gpus).with("processes", order.processes ? load.gpus : 1);
    result.with("pattern", name_of(load.pattern)).with("theta", load.theta);
    result.with("layout", name_of(load.layout)).with("row_bytes", load.row_bytes());
    result.with("by_reference", load.by_reference);
    if (load.segment_bytes != 0) result.with("segment_bytes", load.segment_bytes);
    if (load.slots != 0) result.with("slots", load.slots);
    if (load.chunk_rows != 0) result.with("chunk_rows", load.chunk_rows);
    result.with("rows", load.rows).with("rounds", order.rounds);
    auto const& ours = rates.at("mgi");
    result.figure("gbps_median", median(ours));
    result.figure("gbps_best", *std::max_element(ours.begin(), ours.end()));
    for (char const* const name :
         {"nccl", "nccl_read", "ucx", "ucx_read", "copy_engines", "reference"}) {
        auto const at = rates.find(name);
        result.figure(std::string("gbps_") + name, at == rates.end() ? NAN : median(at->second));
    }
    for (char const* const name : {"nccl", "ucx", "copy_engines", "reference"}) {
        auto const at = rates.find(name);
        result.figure(std::string("ratio_to_") + name,
                      at == rates.end() ? NAN : ratio(ours, at->second));
    }
    series.fill(result);
    return result;
}

void contest(Context& context) {
    Order const order = order_of(context);
    Load const& load = order.load;
    peers::Gpus const gpus = peers::gpus_of(load);
    // Processes before what this one has on the GPUs, but for the rows.
    Field field = field_of(order, gpus);
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<ChannelRuns> ours;
    if (order.processes) {
        ours = by_processes(load);
    } else {
        RuntimeOptions options;
        options.cpu_devices = 1;
        runtime = std::make_unique<Runtime>(Runtime::local(options));
        std::vector<Endpoint> endpoints;
        for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
            endpoints.push_back(runtime->create_endpoint("cuda:" + std::to_string(gpu)));
        }
        ours = std::make_unique<Exchanges>(*runtime, load, endpoints, all_of(load, gpus));
    }
    ours->run(true);
    Rates rates;
    Series series;
    auto const gbps = [&](double ms) { return double(load.bytes()) / ms / 1e6; };
    for (u32 round = 0; round < order.rounds; ++round) {
        // Each runs twice: the first finds others' rows in caches, and other processes' contexts on the GPUs.
        field.each([&](std::string const& name, Contestant& other) {
            other.run();
            Turn const took = other.run();
            rates[name].push_back(gbps(took.arrived));
            if (took.read > took.arrived) rates[name + "_read"].push_back(gbps(took.read));
        });
        ours->run(false);
        Took const took = ours->run(false);
        series.add(took);
        rates["mgi"].push_back(gbps(series.ms.back()));
    }
    bool exact = ours->exact();
    field.each([&](std::string const&, Contestant& other) { exact = other.exact() && exact; });
    for (auto const& [name, why] : field.missing) {
        rates.erase(name);
        rates.erase(name + "_read");
    }
    Result result = result_of(order, rates, series);
    result.with("blocks", ours->blocks());
    result.exact = exact;
    for (auto const& [name, why] : field.missing) result.with("no_" + name, why);
    context.add(std::move(result));
}

Registration const registered{
    "contest", "an exchange by MGI, NCCL, UCX and copy engines, in turn in one run", contest};

}  // namespace
}  // namespace mgi::bench
