// One run of an operator on GPUs: this process' endpoints' places, the channels, and what goes wrong there.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include <mgi/gpu_table.hpp>

#include "core/kept_threads.hpp"
#include "core/log.hpp"
#include "operators/caller.hpp"
#include "operators/conversation.hpp"
#include "operators/gpu/owners.hpp"
#include "operators/gpu/place.hpp"
#include "operators/message.hpp"
#include "operators/report.hpp"
#include "operators/rules.hpp"
#include "operators/text_needs.hpp"

namespace mgi::operators::on_gpu {

class Operation {
public:
    // The place of an endpoint; throws Error where it can have none.
    using MakePlace = std::function<std::shared_ptr<Place>(Device const&, PlaceOptions const&)>;

    // `processes` have the endpoints; `call` has the operator's arguments, which must be the same in all of them. `report`,
    // where there is one, gets what every channel did before it goes.
    Operation(Processes& processes, std::string const& what, Runtime const& runtime,
              std::vector<Endpoint> endpoints, OperatorOptions const& options,
              MakePlace const& make, OperatorReport* report = nullptr,
              Conversation::Call const& call = {})
        : processes_(processes),
          talk_(processes, what, call, options),
          runtime_(runtime),
          endpoints_(std::move(endpoints)),
          options_(options),
          caller_(what, options.cancel),
          report_(report) {
        converse(talk_, [&] { find_places(make); });
    }
    ~Operation() { close(); }
    Operation(Operation const&) = delete;
    Operation& operator=(Operation const&) = delete;

    [[nodiscard]] std::string const& what() const { return talk_.what(); }
    [[nodiscard]] OperatorOptions const& options() const { return options_; }
    // Endpoints of all processes.
    [[nodiscard]] std::size_t size() const { return endpoints_.size(); }
    [[nodiscard]] Endpoint endpoint(std::size_t e) const { return endpoints_[e]; }
    // Those of this process, which has a place for each, and for no other.
    [[nodiscard]] std::vector<std::size_t> const& own() const { return own_; }
    [[nodiscard]] bool is_own(std::size_t e) const { return places_[e] != nullptr; }
    [[nodiscard]] Place& place(std::size_t e) const { return *places_[e]; }
    // The same, for another operation of the same call.
    [[nodiscard]] std::shared_ptr<Place> shared_place(std::size_t e) const { return places_[e]; }

    // Whether all endpoints are this process'.
    [[nodiscard]] bool alone() const { return talk_.alone(); }
    [[nodiscard]] std::string process_name(std::size_t process) const {
        return processes_.name(process);
    }
    // What all processes say at this step, by process; all of them make the same steps.
    std::vector<std::string> gather(std::string const& words) { return talk_.gather(words); }
    // Whether it is so in any process.
    bool in_any(bool here) {
        auto const all = gather(here ? "yes" : "");
        return std::any_of(all.begin(), all.end(), [](auto const& one) { return !one.empty(); });
    }
    // The results of `work()`, if all processes have come to its end. What fails in one fails in all.
    template <class Work>
    std::vector<GpuTable> perform(Work const& work) {
        return converse(talk_, [&] {
            try {
                std::vector<GpuTable> results = work();
                talk_.end({}, {});
                return results;
            } catch (...) {
                // Others' groups may wait for this process' in a channel, wherever it has got to.
                fail_channels(std::current_exception());
                throw;
            }
        });
    }

    // Who owns rows by so many keys, but for where the keys are.
    [[nodiscard]] Owners owners(std::size_t keys) const {
        Owners owners;
        owners.key_count = u32(keys);
        owners.modulo = options_.hash == Hash::Modulo;
        owners.count = u32(size());
        return owners;
    }

    // Whether kernels store rows at their final places, at all endpoints: in memory that they reach, or in windows of other
    // processes.
    [[nodiscard]] bool places_rows() const {
        return alone() ? reach_each_other() : windows_ != nullptr;
    }
    // Where other processes' kernels may write; null where they may not.
    [[nodiscard]] GpuWindows* windows() const { return windows_.get(); }
    // The process of an endpoint.
    [[nodiscard]] std::size_t process_of(std::size_t e) const { return process_of_[e]; }
    // Opens what each process gives, into which all kernels write until `close_windows`: by process, in the order in which
    // it gives them. None where some process cannot open one; then no process uses windows any more.
    std::optional<std::vector<std::vector<GpuWindows::Window>>> open_windows(
        std::vector<void*> const& mine) {
        auto opened = windows_->open(gather(windows_->offer(mine)));
        bool fails = !opened.failure.empty();
        if (opened.anew) fails = in_any(fails);
        if (!fails) return std::move(opened.windows);
        log::info("{}: rows go through channels, since a GPU's memory cannot be shared: {}", what(),
                  opened.failure);
        if (!opened.anew) throw Error(ErrorCode::Internal, what() + ": " + opened.failure);
        windows_->close(mine);
        windows_->do_without();
        windows_ = nullptr;
        return std::nullopt;
    }
    // Behind the end of all processes' kernels.
    void close_windows(std::vector<void*> const& mine) { windows_->close(mine); }
    // Lets go of windows that are kept, in all processes.
    void drop_windows() {
        for (std::size_t const e : own_) (void)trim_gpu_windows(places_[e]->gpu());
        if (windows_ != nullptr) (void)open_windows({});
    }
    // All processes have come to the end of a step, this one with a failure or without; throws in all where one has failed.
    void end_step(std::exception_ptr const& failure) { talk_.end({failure, false}, {}); }

    // Whether the kernels of each endpoint may write into the memory of all of them.
    [[nodiscard]] bool reach_each_other() const {
        return alone() && options_.by_reference &&
               std::all_of(places_.begin(), places_.end(), [&](auto const& from) {
                   return std::all_of(places_.begin(), places_.end(),
                                      [&](auto const& to) { return from->reaches(*to); });
               });
    }

    // Throws Error(Interrupted) if the caller wants to stop.
    void check() const { caller_.check(); }

    // Runs `work(e)` for every endpoint of this process and throws the first failure: for those of different GPUs at the same
    // time, for those of one in turn, since its kernels fill a GPU.
    template <class Work>
    void each(Work const& work) const {
        std::map<u32, std::vector<std::size_t>> on_device;
        for (std::size_t const e : own_) on_device[endpoints_[e].device].push_back(e);
        std::vector<std::function<void()>> all;
        for (auto const& device : on_device) {
            all.emplace_back([&work, &here = device.second] {
                for (std::size_t const e : here) work(e);
            });
        }
        threads().run_all(all);
    }

    // Each row to the endpoint that owns its keys.
    [[nodiscard]] Routing partition(std::vector<std::string> const& keys) const {
        return Routing::partition(keys, options_.hash);
    }

    // A channel from all endpoints to all, for so many rows of all processes.
    Channel open(std::string const& name, Schema const& schema, Routing const& routing, u64 rows,
                 TextNeeds const& texts) {
        check_texts(what(), texts);
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints_;
        spec.schema = schema;
        spec.routing = routing;
        spec.options.name = name;
        spec.options.by_reference = options_.by_reference;
        spec.options.segment_bytes = options_.segment_bytes;
        spec.options.expected_bytes =
            std::max<u64>(rows * (schema.row_bytes() + texts.bytes_per_row), 1);
        spec.options.text_bytes_per_row = texts.bytes_per_row;
        if (options_.segment_bytes == 0 && texts.longest_row > kAnySegmentHolds) {
            make_room(spec.options, schema, texts);
        }
        spec.options.max_groups = most_groups_;
        // Whoever could not come so far is not waited for in vain.
        gather("");
        channels_.push_back(processes_.create_channel(spec));
        return channels_.back();
    }

    // Runs `Kernel(group, shared, channel, args...)` at every endpoint of this process at once, with the arguments that
    // `args_of(e)` gives as a tuple, and waits for all, and for the other processes. `scratch`: bytes beside what the
    // channel needs. Throws the first failure.
    template <class Kernel, class ArgsOf>
    void run(Channel const& channel, u32 scratch, ArgsOf const& args_of) {
        // Launches go into streams of their own: what they work on must be there.
        wait_for_all();
        check();
        Failure failure;
        std::vector<Launch> launches;
        launches.reserve(own_.size());
        for (std::size_t const e : own_) {
            if (failure.what) break;
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
                launch, [&] { return failure.what != nullptr; },
                [&](std::exception_ptr const& now) { note(channel, failure, now); });
        }
        talk_.end(failure, {channel});
        channel.check();
    }

    // Waits for what was put into all places. Throws the first failure, once nothing runs any more.
    void wait_for_all() const {
        std::exception_ptr failure;
        for (std::size_t const e : own_) {
            try {
                places_[e]->wait();
            } catch (...) {
                if (!failure) failure = std::current_exception();
            }
        }
        if (failure) std::rethrow_exception(failure);
    }

    // The same where something has failed already: nothing of this process' writes into any result behind it.
    void wait_for_kernels() const noexcept {
        try {
            wait_for_all();
        } catch (std::exception const&) {
            // The first failure is the one that counts.
        }
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

    // The side that a join's tables are built on, and whether its rows went to all endpoints.
    void built_on(char const* side, bool broadcast) {
        if (report_ == nullptr) return;
        report_->built = side;
        report_->broadcast = broadcast;
    }

    // All rows came to one endpoint.
    void worked_at_one() {
        if (report_ != nullptr) report_->at_one = true;
    }

    // Rows that went from endpoint to endpoint without a channel, or stayed where they were.
    void count_moved(std::size_t from, std::size_t to, u64 rows, u64 bytes) {
        if (report_ == nullptr) return;
        if (from != to && bytes != 0) add_link(*report_, {u32(from), u32(to), bytes});
        report_->rows += rows;
        report_->bytes += bytes;
    }

    // What has moved goes once more, another way.
    void count_anew() {
        if (report_ == nullptr) return;
        report_->rows = 0;
        report_->bytes = 0;
        report_->links.clear();
    }

    // Forgets the channels, whose memory others may need.
    void close() noexcept {
        for (std::size_t const e : own_) {
            if (report_ == nullptr || places_[e] == nullptr) continue;
            report_->peak_bytes = std::max(report_->peak_bytes, places_[e]->peak());
        }
        for (Channel const& channel : channels_) {
            try {
                count(channel);
                processes_.delete_channel(channel);
            } catch (std::exception const&) {
                // It has failed, or is gone.
            }
        }
        channels_.clear();
    }

private:
    // Of all operations. Never destroyed: calls may be under way when the process ends.
    static KeptThreads& threads() {
        static auto* const threads = new KeptThreads;
        return *threads;
    }

    void find_places(MakePlace const& make) {
        if (endpoints_.empty()) refuse(what(), "no endpoints; create one with create_endpoint");
        if (options_.two_level == TwoLevel::On) {
            refuse(what(), "rows of GPUs go in one level; leave OperatorOptions::two_level Auto");
        }
        auto const& devices = runtime_.devices();
        PlaceOptions wanted;
        wanted.limit = options_.receive_limit;
        wanted.allocator = callers_allocator(options_.gpu_allocator, runtime_.gpu_allocator());
        places_.resize(size());
        for (std::size_t e = 0; e < size(); ++e) {
            if (!processes_.mine(endpoints_[e])) continue;
            if (endpoints_[e].device >= devices.size()) {
                refuse(what(), "endpoint " + std::to_string(endpoints_[e].id) +
                                   " is on no device of this runtime");
            }
            own_.push_back(e);
            auto const stream = options_.gpu_streams.find(devices[endpoints_[e].device].ordinal);
            if (stream != options_.gpu_streams.end()) wanted.streams.insert(*stream);
        }
        for (std::size_t const e : own_) {
            Device const& device = devices[endpoints_[e].device];
            auto const stream = wanted.streams.find(device.ordinal);
            wanted.stream.reset();
            if (stream != wanted.streams.end()) wanted.stream = stream->second;
            places_[e] = make(device, wanted);
        }
        check_streams();
        for (std::size_t const e : own_) most_groups_ = std::max(most_groups_, most_groups(e));
        if (!alone()) meet();
    }

    // Nobody gives streams of other GPUs alone, but by mistake. Those of some more may stay.
    void check_streams() const {
        auto const& given = options_.gpu_streams;
        if (given.empty() || own_.empty()) return;
        std::map<int, std::string> there;
        for (std::size_t const e : own_) {
            Device const& device = runtime_.devices()[endpoints_[e].device];
            if (given.count(device.ordinal) != 0) return;
            there[device.ordinal] = device.name;
        }
        std::string names;
        std::string keys;
        for (auto const& one : there) names += (names.empty() ? "" : ", ") + one.second;
        for (auto const& one : given) {
            keys += (keys.empty() ? "" : ", ") + std::to_string(one.first);
        }
        refuse(what(), "gpu_streams has streams for " + keys +
                           ", and this process' endpoints are on " + names +
                           "; give each of these its stream by its number");
    }

    // What all processes must know of each other: a channel is the same for all who create it.
    void meet() {
        windows_ = options_.by_reference ? processes_.windows() : nullptr;
        MessageWriter mine;
        mine.number(most_groups_).text(windows_ == nullptr ? "" : windows_->card());
        mine.number(own_.size());
        for (std::size_t const e : own_) mine.number(e);
        process_of_.resize(size());
        std::vector<std::string> cards;
        auto const all = gather(mine.take());
        for (std::size_t p = 0; p < all.size(); ++p) {
            MessageReader from(all[p]);
            most_groups_ = std::max(most_groups_, u32(from.number(UINT32_MAX)));
            cards.emplace_back(from.text());
            for (u64 left = from.number(size()); left != 0; --left) {
                process_of_[from.number(size() - 1)] = p;
            }
        }
        if (windows_ != nullptr && !windows_->meet(cards, processes_.me())) windows_ = nullptr;
    }

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
            refuse(what(), places_[e]->name() + " has no room for a group of each of its " +
                               std::to_string(here) + " endpoints at the same time; use fewer");
        }
        shape.groups = std::min(most_groups(e), fit);
        return runtime_.launch(endpoints_[e], shape, Kernel{}, on, args...);
    }

    // Keeps the first failure, and ends what waits for others.
    void note(Channel const& channel, Failure& failure, std::exception_ptr const& now) const {
        if (failure.what) return;
        failure = {now, any_failed({channel})};
        fail(channel, now);
    }

    void fail_channels(std::exception_ptr const& why) const noexcept {
        for (Channel const& channel : channels_) {
            try {
                fail(channel, why);
            } catch (std::exception const&) {
                // The cause matters more.
            }
        }
    }

    void fail(Channel const& channel, std::exception_ptr const& why) const {
        try {
            std::rethrow_exception(why);
        } catch (Error const& error) {
            channel.fail(error.code(), error.what());
        } catch (std::exception const& error) {
            channel.fail(ErrorCode::GroupFailed, what() + ": " + error.what());
        } catch (...) {
            channel.fail(ErrorCode::GroupFailed, what() + " failed");
        }
    }

    Processes& processes_;
    Conversation talk_;
    Runtime runtime_;
    std::vector<Endpoint> endpoints_;
    OperatorOptions options_;
    Caller caller_;
    OperatorReport* report_;
    std::vector<std::shared_ptr<Place>> places_;  // by endpoint
    std::vector<std::size_t> own_;
    std::vector<std::size_t> process_of_;  // by endpoint; empty where this one is alone
    std::shared_ptr<GpuWindows> windows_;
    u32 most_groups_ = 0;  // of an endpoint of any process
    std::vector<Channel> channels_;
    std::chrono::steady_clock::time_point phase_start_ = std::chrono::steady_clock::now();
};

}  // namespace mgi::operators::on_gpu
