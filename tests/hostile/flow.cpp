#include "hostile/flow.hpp"

#include "hostile/kernel.hpp"
#include "hostile/late_transport.hpp"

namespace mgi::hostile {

using device::relaxed;
using device::RoutingKind;

namespace {

constexpr std::uint32_t kNone = device::BasicChannel<HostileAtomics>::kNone;

test::TinyOptions stage_options(Shape const& shape) {
    test::TinyOptions stage = shape.channel;
    stage.sources = 1;
    stage.destinations = shape.channel.max_groups;
    stage.segment_rows = std::min(shape.channel.tile_rows, shape.channel.segment_rows);
    stage.tile_rows = stage.segment_rows;
    stage.routing = RoutingKind::Direct;
    stage.by_reference = true;
    stage.takes_ahead = false;
    stage.staged_rows = shape.by_row ? shape.staged_rows : 0;
    stage.seats = shape.helped ? shape.sorters : 0;
    return stage;
}

}  // namespace

Flow::Flow(Shape const& shape)
    : shape_(shape),
      ledger_(shape),
      scheduler_(shape.policy, shape.seed * 17 + 3),
      channel_(shape.schema, shape.channel) {
    if (shape.sorters != 0) add_stages();
    if (!shape.channel.by_reference) add_moves();
    std::uint32_t const sources = shape.channel.sources;
    std::uint32_t const destinations = shape.channel.destinations;
    std::uint32_t const both = shape.loopback ? std::min(sources, destinations) : 0;
    for (std::uint32_t e = 0; e < sources + destinations - both; ++e) {
        std::uint32_t const source = e < sources ? e : kNone;
        std::uint32_t const destination = e < both ? e : e < sources ? kNone : e - sources + both;
        for (std::uint32_t g = 0; g < shape.groups; ++g) spawn_group(source, destination, g);
    }
    spawn_sorters();
    spawn_movers();
    scheduler_.watch([this] { return progress(); });
    scheduler_.name_words([this](void const* word) {
        std::string name = name_word(channel_.state(), word);
        for (std::size_t s = 0; name.empty() && s < stages_.size(); ++s) {
            name = name_word(stages_[s]->state(), word);
            if (!name.empty()) name = "stage " + std::to_string(s) + " " + name;
        }
        return name;
    });
    if (shape.fail_at) scheduler_.at_step(*shape.fail_at, [this] { fail(); });
    Observer::installed = this;
}

Flow::~Flow() {
    Observer::installed = nullptr;
}

std::uint64_t Flow::run() {
    scheduler_.run();
    if (failed_) return scheduler_.steps();
    ledger_.check_all_arrived();
    check_counters();
    check_slots(channel_.state());
    for (auto const& stage : stages_) check_slots(stage->state());
    return scheduler_.steps();
}

void Flow::fail() {
    failed_ = true;
    auto const code = static_cast<std::uint32_t>(ErrorCode::Interrupted);
    for (auto const& stage : stages_) stage->state().failed.store(code, relaxed);
    channel_.state().failed.store(code, relaxed);
}

void Flow::add_stages() {
    for (std::uint32_t s = 0; s < shape_.channel.sources; ++s) {
        stages_.push_back(std::make_unique<TinyChannel>(shape_.schema, stage_options(shape_)));
        stage_states_.push_back(&stages_.back()->state());
    }
    channel_.state().stages = stage_states_.data();
}

void Flow::add_moves() {
    for (std::uint32_t m = 0; m < shape_.movers; ++m) {
        std::vector<std::uint32_t> sources;
        for (std::uint32_t s = m; s < shape_.channel.sources; s += shape_.movers) {
            sources.push_back(s);
        }
        moves_.push_back(std::make_unique<mover::BasicChannelMoves<HostileAtomics>>(
            channel_.state(), sources, std::make_unique<LateTransport>(shape_.seed + m)));
    }
}

Flow::GroupRun& Flow::new_group(std::uint32_t threads) {
    std::uint32_t const calls = channel_.on(0, 0).shared_bytes();
    auto const own = static_cast<std::uint32_t>(
        16 + threads * shape_.schema.size() * sizeof(device::ColumnView) + 15);
    return *groups_.emplace_back(std::make_unique<GroupRun>(threads, calls + own));
}

void Flow::spawn_group(std::uint32_t source, std::uint32_t destination, std::uint32_t block) {
    GroupRun& run = new_group(shape_.threads);
    std::uint32_t const number = next_number_++;
    for (std::uint32_t t = 0; t < shape_.threads; ++t) {
        device::Group const group{block,  shape_.groups,
                                  t,      shape_.threads,
                                  number, shape_.threads == 1 ? nullptr : &run.barrier};
        std::string name = "group " + std::to_string(block) + "/" + std::to_string(t);
        if (destination != kNone) name = "destination " + std::to_string(destination) + " " + name;
        if (source != kNone) name = "source " + std::to_string(source) + " " + name;
        auto const kernel = std::make_shared<Kernel>(*this, run, group, source, destination);
        scheduler_.spawn(std::move(name), [kernel] { (*kernel)(); });
    }
}

void Flow::spawn_sorters() {
    for (std::uint32_t s = 0; shape_.sorters != 0 && s < shape_.channel.sources; ++s) {
        for (std::uint32_t g = 0; g < shape_.sorters; ++g) {
            GroupRun& run = new_group(1);
            device::Group const group{g, shape_.sorters, 0, 1, next_number_++, nullptr};
            auto const body = [this, &run, group, s] {
                Scheduler::at("sorting");
                device::Shared shared = run.scratch.shared();
                State& state = channel_.state();
                ErrorCode const code =
                    device::Sorter<HostileAtomics>()(group, shared, &state, s, stage_states_[s]);
                if (code == ErrorCode::Ok || state.error() != ErrorCode::Ok) return;
                if (stage_states_[s]->error() != ErrorCode::Ok) return;
                throw Broken("a sorter could not go on");
            };
            scheduler_.spawn("sorter " + std::to_string(s) + "." + std::to_string(g), body);
        }
    }
}

void Flow::spawn_movers() {
    for (std::size_t m = 0; m < moves_.size(); ++m) {
        scheduler_.spawn("mover " + std::to_string(m), [moves = moves_[m].get()] {
            Scheduler::at("moving");
            while (!moves->done()) {
                if (!moves->step()) Scheduler::pause();
            }
        });
    }
}

std::uint64_t Flow::progress() {
    std::uint64_t sum = 0;
    auto const add = [&](State& state) {
        for (std::uint32_t s = 0; s < state.source_count; ++s) {
            auto& source = state.sources[s];
            sum += source.words->groups_flushed.load(relaxed);
            for (std::uint32_t l = 0; l < state.lane_count; ++l) {
                sum += source.lanes[l].published.load(relaxed);
                sum += source.lanes[l].rows_published.load(relaxed);
                sum += source.lanes[l].delivered.load(relaxed);
                if (source.lanes[l].mail != nullptr) {
                    sum += source.lanes[l].mail->moved.load(relaxed);
                }
            }
            for (std::uint32_t g = 0; g < state.max_groups; ++g) {
                sum += source.groups[g].rows_accepted.load(relaxed);
            }
        }
        for (std::uint32_t d = 0; d < state.destination_count; ++d) {
            sum += state.destinations[d].words->rows_received.load(relaxed);
            sum += state.destinations[d].words->ended.load(relaxed);
        }
    };
    add(channel_.state());
    for (auto const& stage : stages_) add(stage->state());
    return sum;
}

// A push: the rows of that segment stand in this receive queue from now on; or where the destination's groups
// will put them there; or they have come to an inbox.
void Flow::storing(void const* word, std::uint64_t value) {
    using Book = device::Arrivals<HostileAtomics>;
    State& state = channel_.state();
    auto const entry_at = [word](auto* entries, std::uint32_t mask) -> decltype(entries) {
        auto const at = reinterpret_cast<std::uintptr_t>(word);
        auto const first = reinterpret_cast<std::uintptr_t>(entries);
        bool const inside = at >= first && at < first + sizeof(*entries) * (mask + 1);
        return inside ? &entries[(at - first) / sizeof(*entries)] : nullptr;
    };
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        auto const& to = state.destinations[d];
        if (to.arrivals != nullptr) {
            if (entry_at(to.arrivals->entries, to.arrivals->mask) == nullptr) continue;
            if (Book::slot(value) == Book::kEnd) return;
            return queued(d, Book::source(value), Book::slot(value), Book::rows(value));
        }
        for (std::uint32_t s = 0; s < state.source_count; ++s) {
            auto const* const inbox = to.rings[s].inbox;
            if (inbox == nullptr) continue;
            auto* const came = entry_at(inbox->came, inbox->mask);
            if (came == nullptr) continue;
            auto const slot = static_cast<std::uint32_t>(came - inbox->came);
            return queued(d, s, slot, device::Arrival::rows(value));
        }
        auto* const entry = entry_at(to.queue->entries, to.queue->mask);
        if (entry == nullptr) continue;
        if (word != &entry->state) return;
        std::uint64_t const what = entry->what.peek();
        auto const source = static_cast<std::uint32_t>(what >> 32);
        auto const slot = static_cast<std::uint32_t>(what);
        std::uint64_t const content = to.rings[source].slots[slot].content.peek();
        return queued(d, source, slot, device::Content::rows(device::Content::at(content, d)));
    }
}

void Flow::queued(std::uint32_t destination, std::uint32_t source, std::uint32_t slot,
                  std::uint32_t rows) {
    State& state = channel_.state();
    device::ReceivedBatch batch;
    batch.segment = state.pool + state.destinations[destination].rings[source].slots[slot].offset;
    batch.layout = &state.layout;
    batch.rows = rows;
    for (std::uint32_t i = 0; i < rows; ++i) {
        ledger_.queued(destination, Ledger::id_of(batch, i));
    }
}

}  // namespace mgi::hostile
