#include "peers/ours.hpp"

#include <algorithm>

#include <mgi/runtime.hpp>

#include "peers/operator.hpp"
#include "peers/shared.hpp"
#include "perf/launches.hpp"

namespace mgi::peers {
namespace {

constexpr std::uint64_t kLeastSlice = 4096;

/// A channel for each run: made untimed, left when it is over.
class Ours : public Member {
public:
    Ours(Options const& options, OwnRows const& rows)
        : options_(options),
          rows_(rows),
          runtime_(options.processes > 1 ? Runtime::connect() : Runtime::local()) {
        std::vector<Endpoint> mine;
        for (std::size_t e = 0; e < rows.size(); ++e)
            mine.push_back(runtime_.create_endpoint("cpu"));
        endpoints_ = options.processes > 1 ? runtime_.gather_endpoints(mine) : mine;
        launch_.groups = std::max(1u, options.rows.groups);
        launch_.threads = options.rows.threads;
    }

    void prepare(std::string_view) override { channel_ = runtime_.create_channel(spec()); }

    Ran run(std::string_view) override {
        std::vector<EndpointRun> runs(rows_.size());
        for (std::size_t e = 0; e < rows_.size(); ++e) runs[e].rows = rows_[e].get();
        perf::Span const span = perf::run_launches(
            runs, launch_, [this](std::uint32_t e, EndpointRun* run) { return launch(e, run); },
            &channel_, nullptr);
        Ran ran{span.first, span.last, {}};
        for (EndpointRun const& run : runs) {
            for (perf::ThreadResult const& result : run.results) ran.received.add(result.received);
        }
        channel_.check();
        runtime_.delete_channel(channel_);
        return ran;
    }

private:
    using EndpointRun = perf::EndpointRun;

    [[nodiscard]] ChannelSpec spec() const {
        std::vector<Field> fields{{"key", int64()}};
        for (std::uint32_t c = 1; c < options_.columns(); ++c) {
            fields.push_back({"payload" + std::to_string(c), int64()});
        }
        ChannelSpec spec;
        spec.sources.assign(endpoints_.begin(), endpoints_.begin() + options_.sources);
        spec.destinations.assign(endpoints_.end() - options_.destinations, endpoints_.end());
        spec.schema = Schema(std::move(fields));
        spec.routing = options_.broadcast ? Routing::broadcast() : Routing::partition("key");
        spec.options.name = "perf exchange";
        spec.options.by_reference = options_.rows.by_reference;
        spec.options.layout = options_.rows.layout;
        spec.options.max_groups = launch_.groups;
        return spec;
    }

    Launch launch(std::uint32_t e, EndpointRun* run) {
        std::uint32_t const number = (options_.rank * std::uint32_t(rows_.size())) + e;
        device::Channel const here = channel_.on(endpoints_[number]);
        run->slice = std::max<std::uint64_t>(kLeastSlice, channel_.plan().tile_rows);
        run->sends = number < options_.sources;
        if (number >= options_.endpoints - options_.destinations) run->inboxes.push_back(here);
        return runtime_.launch(endpoints_[number], launch_, perf::ExchangeKernel{}, here, run);
    }

    Options const options_;
    OwnRows const& rows_;
    Runtime runtime_;
    std::vector<Endpoint> endpoints_;
    LaunchOptions launch_;
    Channel channel_;
};

std::unique_ptr<Member> make_ours(Options const& options, OwnRows const& rows, Driver&) {
    return std::make_unique<Ours>(options, rows);
}

std::unique_ptr<Member> make_limit(Options const& options, OwnRows const& rows, Driver& driver) {
    return std::make_unique<PipelinedMember>(options, only(options, rows), share(options, driver));
}

}  // namespace

int run_own_member(std::string const& kind, std::vector<std::string> const& words) {
    if (kind == "mgi") return run_member(words, make_ours);
    if (kind == "limit") return run_member(words, make_limit);
    if (kind == "operator") return run_member(words, make_operator);
    throw Error(ErrorCode::InvalidArgument, "'" + kind + "': give mgi, limit or operator");
}

}  // namespace mgi::peers
