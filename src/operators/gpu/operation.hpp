// One run of an operator on GPUs: its endpoints' places, its channels, and what goes wrong there.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <tuple>

#include "operators/caller.hpp"
#include "operators/gpu/owners.hpp"
#include "operators/gpu/place.hpp"
#include "operators/rules.hpp"

namespace mgi::operators::on_gpu {

class Operation {
public:
    // The place of an endpoint; throws Error where it can have none.
    using MakePlace = std::function<std::unique_ptr<Place>(Device const&, u64 limit)>;

    // `report`, where there is one, gets what every channel did before it goes.
    Operation(std::string what, Runtime const& runtime, std::vector<Endpoint> endpoints,
              OperatorOptions const& options, MakePlace const& make,
              OperatorReport* report = nullptr)
        : what_(std::move(what)),
          runtime_(runtime),
          endpoints_(std::move(endpoints)),
          options_(options),
          caller_(what_, options.cancel),
          report_(report) {
        if (endpoints_.empty()) refuse(what_, "no endpoints; create one with create_endpoint");
        if (options.two_level == TwoLevel::On) {
            refuse(what_, "rows of GPUs go in one level; leave OperatorOptions::two_level Auto");
        }
        auto const& devices = runtime_.devices();
        for (Endpoint const& endpoint : endpoints_) {
            if (endpoint.device >= devices.size()) {
                refuse(what_, "endpoint " + std::to_string(endpoint.id) +
                                  " is another process'; tables in GPU memory stay in one process");
            }
            places_.push_back(make(devices[endpoint.device], options.receive_limit));
        }
    }
    ~Operation() { close(); }
    Operation(Operation const&) = delete;
    Operation& operator=(Operation const&) = delete;

    [[nodiscard]] std::string const& what() const { return what_; }
    [[nodiscard]] OperatorOptions const& options() const { return options_; }
    [[nodiscard]] std::size_t size() const { return endpoints_.size(); }
    [[nodiscard]] Place& place(std::size_t e) const { return *places_[e]; }
    [[nodiscard]] Endpoint endpoint(std::size_t e) const { return endpoints_[e]; }

    // Who owns rows by so many keys, but for where the keys are.
    [[nodiscard]] Owners owners(std::size_t keys) const {
        Owners owners;
        owners.key_count = u32(keys);
        owners.modulo = options_.hash == Hash::Modulo;
        owners.count = u32(size());
        return owners;
    }

    // Whether the kernels of each endpoint may write into the memory of all of them.
    [[nodiscard]] bool reach_each_other() const {
        return options_.by_reference &&
               std::all_of(places_.begin(), places_.end(), [&](auto const& from) {
                   return std::all_of(places_.begin(), places_.end(),
                                      [&](auto const& to) { return from->reaches(*to); });
               });
    }

    // Throws Error(Interrupted) if the caller wants to stop.
    void check() const { caller_.check(); }

    // Runs `work(e)` for every endpoint and throws the first failure: for those of different GPUs at the same
    // time, for those of one in turn, since its kernels fill a GPU.
    template <class Work>
    void each(Work const& work) const {
        std::map<u32, std::vector<std::size_t>> on_device;
        for (std::size_t e = 0; e < size(); ++e) on_device[endpoints_[e].device].push_back(e);
        auto const how = on_device.size() == 1 ? std::launch::deferred : std::launch::async;
        std::vector<std::future<void>> devices;  // each waits when it dies
        for (auto const& device : on_device) {
            devices.push_back(std::async(how, [&work, &here = device.second] {
                for (std::size_t const e : here) work(e);
            }));
        }
        for (auto& device : devices) device.get();
    }

    // A channel from all endpoints to all, by the keys, for so many rows.
    Channel open(std::string const& name, Schema const& schema,
                 std::vector<std::string> const& keys, u64 rows) {
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints_;
        spec.schema = schema;
        spec.routing = Routing::partition(keys, options_.hash);
        spec.options.name = name;
        spec.options.by_reference = options_.by_reference;
        spec.options.segment_bytes = options_.segment_bytes;
        spec.options.expected_bytes = std::max<u64>(rows * schema.row_bytes(), 1);
        for (std::size_t e = 0; e < size(); ++e) {
            spec.options.max_groups = std::max(spec.options.max_groups, most_groups(e));
        }
        channels_.push_back(runtime_.create_channel(spec));
        return channels_.back();
    }

    // Runs `Kernel(group, shared, channel, args...)` at every endpoint at once, with the arguments that
    // `args_of(e)` gives as a tuple, and waits for all. `scratch`: bytes beside what the channel needs.
    // Throws the first failure.
    template <class Kernel, class ArgsOf>
    void run(Channel const& channel, u32 scratch, ArgsOf const& args_of) {
        // Launches go into streams of their own: what they work on must be there.
        for (auto const& place : places_) place->wait();
        check();
        std::exception_ptr failure;
        std::vector<Launch> launches;
        launches.reserve(size());
        for (std::size_t e = 0; e < size() && !failure; ++e) {
            try {
                launches.push_back(std::apply(
                    [&](auto... args) { return start_at<Kernel>(e, channel, scratch, args...); },
                    args_of(e)));
            } catch (...) {
                note(channel, failure, std::current_exception());
            }
        }
        for (Launch& launch : launches) {
            caller_.wait_for(
                launch, [&] { return failure != nullptr; },
                [&](std::exception_ptr const& now) { note(channel, failure, now); });
        }
        if (failure) std::rethrow_exception(failure);
        channel.check();
    }

    // Waits for what was put into all places. Throws the first failure, once nothing runs any more.
    void wait_for_all() const {
        std::exception_ptr failure;
        for (auto const& place : places_) {
            try {
                place->wait();
            } catch (...) {
                if (!failure) failure = std::current_exception();
            }
        }
        if (failure) std::rethrow_exception(failure);
    }

    // All since the end of the one before was this phase.
    void end_phase(std::string const& name) {
        auto const now = std::chrono::steady_clock::now();
        double const seconds = std::chrono::duration<double>(now - phase_start_).count();
        phase_start_ = now;
        if (report_ == nullptr) return;
        auto& phases = report_->phases;
        auto const at = std::find_if(phases.begin(), phases.end(),
                                     [&](OperatorPhase const& one) { return one.name == name; });
        if (at == phases.end()) {
            phases.push_back({name, seconds});
        } else {
            at->seconds += seconds;
        }
    }

    // Rows that went from endpoint to endpoint without a channel.
    void count_moved(u64 rows, u64 bytes) {
        if (report_ == nullptr) return;
        report_->rows += rows;
        report_->bytes += bytes;
    }

    // What has moved goes once more, another way.
    void count_anew() {
        if (report_ == nullptr) return;
        report_->rows = 0;
        report_->bytes = 0;
    }

    // Forgets the channels, whose memory others may need.
    void close() noexcept {
        for (Channel const& channel : channels_) {
            try {
                count(channel);
                runtime_.delete_channel(channel);
            } catch (std::exception const&) {
                // It has failed, or is gone.
            }
        }
        channels_.clear();
    }

private:
    void count(Channel const& channel) const {
        if (report_ == nullptr) return;
        ChannelStats const stats = channel.stats();
        report_->plans.push_back(channel.plan());
        report_->rows += stats.rows;
        report_->bytes += stats.bytes;
        report_->channels.push_back(stats);
    }

    // How many of the endpoints are on the device of one.
    [[nodiscard]] u32 neighbours(std::size_t e) const {
        u32 count = 0;
        for (Endpoint const& other : endpoints_) count += other.device == endpoints_[e].device;
        return count;
    }
    [[nodiscard]] u32 most_groups(std::size_t e) const {
        if (options_.groups != 0) return options_.groups;
        if (!places_[e]->is_gpu()) return places_[e]->most_groups();
        return std::max(1u, places_[e]->most_groups() / neighbours(e));
    }

    template <class Kernel, class... Args>
    Launch start_at(std::size_t e, Channel const& channel, u32 scratch, Args... args) {
        device::Channel const on = channel.on(endpoints_[e]);
        LaunchOptions shape;
        shape.threads = places_[e]->threads();
        shape.shared_bytes = scratch;
        // All of a device's endpoints have to be there at the same time.
        u32 const here = neighbours(e);
        u32 const fit = runtime_.most_groups(endpoints_[e], shape, Kernel{}, on, args...) / here;
        if (fit == 0) {
            refuse(what_, places_[e]->name() + " has no room for a group of each of its " +
                              std::to_string(here) + " endpoints at the same time; use fewer");
        }
        shape.groups = std::min(most_groups(e), fit);
        return runtime_.launch(endpoints_[e], shape, Kernel{}, on, args...);
    }

    // Keeps the first failure, and ends what waits for others.
    void note(Channel const& channel, std::exception_ptr& failure,
              std::exception_ptr const& now) const {
        if (failure) return;
        failure = now;
        try {
            std::rethrow_exception(now);
        } catch (Error const& error) {
            channel.fail(error.code(), error.what());
        } catch (std::exception const& error) {
            channel.fail(ErrorCode::GroupFailed, what_ + ": " + error.what());
        } catch (...) {
            channel.fail(ErrorCode::GroupFailed, what_ + " failed");
        }
    }

    std::string what_;
    Runtime runtime_;
    std::vector<Endpoint> endpoints_;
    OperatorOptions options_;
    Caller caller_;
    OperatorReport* report_;
    std::vector<std::unique_ptr<Place>> places_;
    std::vector<Channel> channels_;
    std::chrono::steady_clock::time_point phase_start_ = std::chrono::steady_clock::now();
};

}  // namespace mgi::operators::on_gpu
