#include "operators/run.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/process_limits.hpp"
#include "operators/aggregates.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

}  // namespace

Run::Run(Runtime& runtime, Conversation& talk, std::vector<Endpoint> const& endpoints,
         OperatorOptions const& options)
    : runtime_(runtime),
      talk_(talk),
      what_(talk.what()),
      endpoints_(endpoints),
      options_(options),
      memory_(runtime.memory_left()),
      budget_(what_ + "'s result and tables",
              options.receive_limit != 0 ? options.receive_limit : memory_) {
    auto const& devices = runtime.devices();
    // Of a quota of the cores' time each device has its part.
    double const share = std::min(
        1.0, double(usable_cores()) / double(std::max<std::size_t>(allowed_cores().size(), 1)));
    for (Endpoint const& endpoint : endpoints) {
        if (!talk.processes().mine(endpoint)) {
            groups_.push_back(0);
            continue;
        }
        if (endpoint.device >= devices.size()) {
            throw Error(ErrorCode::NotFound,
                        what_ + ": endpoint " + std::to_string(endpoint.id) + " is on device " +
                            std::to_string(endpoint.device) + ", which this runtime does not have");
        }
        auto const sharing =
            std::count_if(endpoints.begin(), endpoints.end(), [&](Endpoint const& other) {
                return talk.processes().mine(other) && other.device == endpoint.device;
            });
        u32 const cores = u32(double(devices[endpoint.device].cores.size()) * share);
        groups_.push_back(options.groups != 0 ? options.groups
                                              : std::max(1u, cores / u32(sharing)));
    }
    most_groups_ = *std::max_element(groups_.begin(), groups_.end());
    // A channel is the same for all who create it.
    for (std::string const& facts :
         talk.gather(MessageWriter().number(most_groups_).number(memory_).take())) {
        MessageReader from(facts);
        most_groups_ = std::max(most_groups_, u32(from.number(UINT32_MAX)));
        memory_ = std::min(memory_, from.number());
    }
}

Run::~Run() {
    for (Channel const& channel : channels_) {
        try {
            talk_.processes().delete_channel(channel);
        } catch (std::exception const&) {
            // Deleted already, with the runtime; or there is no memory to forget it, which the
            // runtime then does at its end.
        }
    }
}

Passage Run::open(std::string const& name, Schema const& schema,
                  std::vector<std::string> const& keys, TextNeeds const& texts, bool keeps) {
    return open(name, schema, Routing::partition(keys, options_.hash), texts, keeps);
}

Passage Run::open(std::string const& name, Schema const& schema, Routing const& routing,
                  TextNeeds const& texts, bool keeps) {
    Flow flow;
    flow.name = name;
    flow.sources.resize(endpoints_.size());
    std::iota(flow.sources.begin(), flow.sources.end(), 0u);
    flow.destinations = flow.sources;
    flow.keeps = keeps;
    return open(std::vector{flow}, schema, routing, texts).front();
}

std::vector<Passage> Run::open(std::vector<Flow> const& flows, Schema const& schema,
                               std::vector<std::string> const& keys, TextNeeds const& texts) {
    return open(flows, schema, Routing::partition(keys, options_.hash), texts);
}

std::vector<Passage> Run::open(std::vector<Flow> const& flows, Schema const& schema,
                               Routing const& routing, TextNeeds const& texts) {
    std::vector<ChannelSpec> specs;
    for (Flow const& flow : flows) specs.push_back(spec_of(flow, schema, routing, texts));
    std::size_t const before = channels_.size();
    for (;;) {
        std::vector<Channel> const channels = create(flows, specs, Counted::Rows);
        bool fit = std::all_of(channels.begin(), channels.end(), [&](Channel const& channel) {
            return !channel || channel.plan().text_bytes >= texts.longest_row;
        });
        // One channel is all processes', who find the same. Of several, each asks the others; which
        // then also hear of one that could not be made.
        if (flows.size() > 1) {
            auto const all = talk_.gather(fit ? "fit" : "");
            fit = std::all_of(all.begin(), all.end(), [](auto const& one) { return one == "fit"; });
        }
        if (fit) {
            std::vector<Passage> passages;
            for (Channel const& channel : channels) passages.push_back({channel, nullptr});
            return passages;
        }
        // Segments as large as the caller says, or as a row may make them: longer rows go another way.
        if (options_.segment_bytes != 0 || !fits_a_segment(texts)) {
            return with_pieces(flows, routing, channels);
        }
        // Not before all have them: a channel ends for all when one deletes it.
        if (flows.size() == 1) talk_.gather("");
        close_channels(before);
        for (ChannelSpec& spec : specs) make_room(spec.options, schema, texts);
    }
}

std::vector<Passage> Run::with_pieces(std::vector<Flow> const& flows, Routing const& routing,
                                      std::vector<Channel> const& channels) {
    std::vector<ChannelSpec> specs;
    for (Flow const& flow : flows) specs.push_back(pieces_of(flow, routing));
    std::vector<Channel> const pieces = create(flows, specs, Counted::Pieces);
    std::vector<Passage> passages(flows.size());
    for (std::size_t f = 0; f < flows.size(); ++f) {
        if (!channels[f]) continue;
        std::vector<Endpoint> here;
        for (u32 const e : flows[f].destinations) {
            if (mine(e)) here.push_back(endpoints_[e]);
        }
        passages[f] = {channels[f],
                       std::make_shared<LargeRows>(channels[f], pieces[f], here, budget_)};
        if (!flows[f].again) large_.push_back(passages[f].large);
    }
    return passages;
}

// Segments of one piece each: as large as is fast, and all of them within a small part of the memory.
ChannelSpec Run::pieces_of(Flow const& flow, Routing const& routing) const {
    constexpr u64 kMostPiece = u64{256} << 10;
    constexpr u64 kLeastPiece = u64{4} << 10;
    constexpr u64 kAllPieces = u64{64} << 20;
    constexpr u32 kSlots = 2;
    bool const to_all = routing.kind == device::RoutingKind::Broadcast;
    ChannelSpec spec;
    for (u32 const e : flow.sources) spec.sources.push_back(endpoints_[e]);
    for (u32 const e : flow.destinations) spec.destinations.push_back(endpoints_[e]);
    spec.schema = LargeRows::piece_schema();
    spec.routing = to_all ? Routing::broadcast() : Routing::direct();
    u64 const lanes = flow.sources.size() * (to_all ? 1 : flow.destinations.size());
    u64 const places = (lanes + flow.sources.size() * flow.destinations.size()) * kSlots +
                       flow.sources.size() * most_groups_;
    u64 const piece =
        std::clamp(std::min(kAllPieces, memory_ / 16) / places, kLeastPiece, kMostPiece);
    ChannelOptions& options = spec.options;
    options.name = flow.name + ", large rows";
    options.by_reference = options_.by_reference;
    options.segment_rows = 1;
    options.tile_rows = 1;
    options.slots = kSlots;
    options.max_groups = most_groups_;
    options.text_bytes_per_row = u32(piece);
    return spec;
}

ChannelSpec Run::spec_of(Flow const& flow, Schema const& schema, Routing const& routing,
                         TextNeeds const& texts) const {
    ChannelSpec spec;
    for (u32 const e : flow.sources) spec.sources.push_back(endpoints_[e]);
    for (u32 const e : flow.destinations) spec.destinations.push_back(endpoints_[e]);
    spec.schema = schema;
    spec.routing = routing;
    spec.routing.owners = flow.owners;
    ChannelOptions& options = spec.options;
    options.name = flow.name;
    options.by_reference = options_.by_reference;
    options.segment_bytes = options_.segment_bytes;
    options.max_groups = most_groups_;
    options.text_bytes_per_row = bytes_per_row(schema, texts, options_.segment_bytes);
    if (flow.keeps) {
        // All that is left, where the caller says nothing.
        u64 const all = talk_.alone() ? std::numeric_limits<u64>::max() : memory_;
        options.receive_limit = options_.receive_limit != 0 ? options_.receive_limit : all;
    }
    return spec;
}

bool Run::takes_part(Flow const& flow) const {
    auto const own = [this](u32 endpoint) { return mine(endpoint); };
    return std::any_of(flow.sources.begin(), flow.sources.end(), own) ||
           std::any_of(flow.destinations.begin(), flow.destinations.end(), own);
}

// What one cannot be made for is thrown when all were tried: others may wait for this process to make the
// next one with them. Not where somebody was waited for in vain already, or the caller cancels.
std::vector<Channel> Run::create(std::vector<Flow> const& flows,
                                 std::vector<ChannelSpec> const& specs, Counted counted) {
    std::vector<Channel> created(flows.size());
    std::exception_ptr failure;
    for (std::size_t f = 0; f < flows.size(); ++f) {
        if (!takes_part(flows[f])) continue;
        try {
            // What is created is also deleted.
            channels_.reserve(channels_.size() + 1);
            counted_.reserve(channels_.size() + 1);
            created[f] = talk_.processes().create_channel(specs[f]);
            channels_.push_back(created[f]);
            counted_.push_back(flows[f].again ? Counted::Nothing : counted);
        } catch (Error const& error) {
            if (error.code() == ErrorCode::Timeout || error.code() == ErrorCode::Interrupted) throw;
            if (failure != nullptr) continue;
            failure = std::current_exception();
            if (error.code() != ErrorCode::OutOfMemory) continue;
            // A channel's own options are not the operator's.
            failure = std::make_exception_ptr(
                Error(error.code(), what_ + ": " + error.what() +
                                        "; an operator takes less with fewer endpoints or groups, "
                                        "and more where its runtime has a larger memory_limit"));
        }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
    return created;
}

// Those behind the first `left`.
void Run::close_channels(std::size_t left) {
    while (channels_.size() > left) {
        Channel const channel = channels_.back();
        channels_.pop_back();
        counted_.pop_back();
        talk_.processes().delete_channel(channel);
    }
}

void Run::check() const {
    if (!failed() && !any_failed(channels_)) return;
    throw Error(ErrorCode::Interrupted, what_ + ": another group has failed");
}

void Run::Kernel::operator()(device::Group const& group, device::Shared& shared) const {
    try {
        (*body)(endpoint, group, shared);
    } catch (...) {
        run->record(std::current_exception());
    }
}

// Keeps the first failure before the others can come about through failed channels.
void Run::record(std::exception_ptr failure) {
    ErrorCode code = ErrorCode::GroupFailed;
    std::string message = what_ + " failed";
    try {
        std::rethrow_exception(failure);
    } catch (Error const& error) {
        code = error.code();
        message = error.what();
    } catch (std::exception const& error) {
        message = error.what();
    } catch (NarrowOverflow const&) {
        // Nothing is wrong, and the log has nothing to say: others leave this attempt behind, too.
        code = ErrorCode::Deleted;
        message = what_ + " adds up again, in wider words";
    } catch (...) {
        // The code says enough: what was thrown goes on to the caller.
    }
    {
        std::lock_guard const lock(mutex_);
        if (!failure_) {
            failure_ = std::move(failure);
            followed_ = any_failed(channels_);
        }
    }
    failed_.store(true, std::memory_order_release);
    fail_channels(code, message);
}

void Run::fail_channels(ErrorCode code, std::string const& message) {
    for (Channel const& channel : channels_) channel.fail(code, message);
}

void Run::run(Body const& body) {
    auto const start = Clock::now();
    std::vector<Launch> launches;
    launches.reserve(endpoints_.size());  // what is launched is also waited for
    for (std::size_t e = 0; e < endpoints_.size(); ++e) {
        if (!mine(e)) continue;
        try {
            LaunchOptions launch;
            launch.groups = groups_[e];
            launches.push_back(runtime_.launch(endpoints_[e], launch, Kernel{this, &body, e}));
        } catch (...) {
            record(std::current_exception());
            break;
        }
    }
    // All of them, also after a failure: their groups use what the caller owns.
    Caller const caller(what_, options_.cancel);
    for (Launch& launch : launches) {
        caller.wait_for(
            launch, [this] { return failed(); },
            [this](std::exception_ptr failure) { record(std::move(failure)); });
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    talk_.end({failure_, followed_}, channels_);
}

void Run::report(OperatorReport* report) const {
    if (report == nullptr) return;
    *report = {};
    report->seconds = seconds_;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
        report->channels.push_back(channels_[c].stats());
        report->plans.push_back(channels_[c].plan());
        report->two_level |= counted_[c] == Counted::Nothing;
        if (counted_[c] == Counted::Nothing) continue;
        if (counted_[c] == Counted::Rows) report->rows += report->channels.back().rows;
        report->bytes += report->channels.back().bytes;
    }
    for (auto const& large : large_) report->rows += large->sent();
}

void throw_failure(Channel const& channel, ErrorCode code) {
    channel.check();
    throw Error(code, "channel '" + channel.name() + "' refused a call: " + to_string(code));
}

Table table_of(Schema const& schema, std::vector<std::vector<RecordBatch>>& groups) {
    Table table;
    table.schema = schema;
    for (auto& batches : groups) {
        for (RecordBatch& batch : batches) table.batches.push_back(std::move(batch));
    }
    return table;
}

device::Batch Outbox::left() const {
    device::Batch batch;
    batch.columns = columns_.data();
    batch.count = count_ - sent_;
    return batch;
}

void Outbox::have_gone(u64 rows) {
    sent_ += rows;
    for (ColumnView& column : columns_) column.offset += rows;
}

bool Outbox::send(device::Group const& group, device::Shared& shared) {
    if (large_ && !large_->idle()) return send_large(group, shared);
    device::SendResult const result = device_.send(group, shared, left());
    have_gone(result.rows);
    if (result.status != device::Status::Error) return result.rows != 0;
    if (result.code != ErrorCode::Refused || !large_) throw_failure(channel_, result.code);
    // A channel may have failed with that code, too.
    channel_.check();
    large_->begin(group, left());
    return send_large(group, shared) || result.rows != 0;
}

bool Outbox::send_large(device::Group const& group, device::Shared& shared) {
    bool const moved = large_->send(group, shared);
    if (large_->idle()) have_gone(1);
    return moved;
}

bool Outbox::flush(device::Group const& group, device::Shared& shared) {
    if (flushed_) return true;
    device::CallResult const result = device_.flush(group, shared);
    if (result == device::Status::Error) throw_failure(channel_, result.code);
    bool const all = !large_ || large_->flush(group, shared);
    flushed_ = result == device::Status::Ok && all;
    return flushed_;
}

}  // namespace mgi::operators
