#include "runtime/gpu_place.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <mgi/device/assert.hpp>

#include "core/text.hpp"

namespace mgi {

using memory::Carver;

namespace {

std::shared_ptr<gpu::PinnedMemory> zeroed(gpu::Reserve& reserve, int gpu, std::uint64_t bytes) {
    auto memory = reserve.pinned(gpu, bytes);
    if (bytes != 0) std::memset(memory->data(), 0, bytes);
    return memory;
}

std::uint64_t range_bytes(device::RangeTable const& range) {
    return Carver::piece(range.key_count * sizeof(device::KeyOrder)) +
           Carver::piece(std::uint64_t{range.count} * range.key_count *
                         sizeof(device::SplitterValue)) +
           Carver::piece(range.byte_count);
}

// Makes an array of the host's one of the tables'.
template <class T>
void bring(std::pmr::memory_resource& memory, T const*& array, std::size_t count) {
    if (count == 0) {
        array = nullptr;
        return;
    }
    T* const to = make_table<T>(memory, count);
    std::copy_n(array, count, to);
    array = to;
}

}  // namespace

std::uint64_t GpuPlace::bytes_of(State const& shape) {
    return Carver::piece(sizeof(State)) +
           2 * Carver::piece(shape.layout.column_count * sizeof(device::ColumnLayout)) +
           Carver::piece(shape.key_count * sizeof(std::uint32_t)) +
           Carver::piece(shape.part_count * sizeof(device::u16)) + range_bytes(shape.range) +
           Carver::piece(shape.destination_count * sizeof(std::uint32_t)) +
           Carver::piece(shape.source_count * sizeof(State*));
}

GpuPlace::Sizes GpuPlace::sizes_of(State const& shape, Plan const& plan, Here const& here,
                                   Here const& far, Here const* peers) {
    State counted;  // tables are built into a state, and only counted by one
    counted.layout = shape.layout;
    counted.carry_layout = shape.carry_layout;
    counted.routing = shape.routing;
    counted.source_count = shape.source_count;
    counted.destination_count = shape.destination_count;
    counted.lane_count = shape.lane_count;
    counted.max_groups = shape.max_groups;
    counted.takes_ahead = shape.takes_ahead;
    counted.ordered = shape.ordered;
    std::uint64_t const own = bytes_of(shape);
    if (peers != nullptr) {
        ChannelTables const tables(counted, plan, *peers);
        return {own + tables.bytes(here), tables.home_bytes(here)};
    }
    bool const by_mail = plan.transfer != Transfer::ByReference;
    ChannelTables const tables(counted, plan, here, far, by_mail);
    return {own + tables.bytes(), tables.pool_bytes(), by_mail ? tables.mail_bytes() : 0,
            tables.far_bytes()};
}

std::uint64_t GpuPlace::peer_bytes(State const& shape, Plan const& plan, Here const& here,
                                   Here const& all) {
    Sizes const sizes = sizes_of(shape, plan, here, {}, &all);
    return with_tables_ahead(sizes).ahead + sizes.pool;
}

GpuPlace::Sizes GpuPlace::with_tables_ahead(Sizes sizes) {
    constexpr std::uint64_t kPage = 4096;
    sizes.ahead = (sizes.tables + kPage - 1) / kPage * kPage;
    return sizes;
}

GpuPlace::Charge::Charge(std::shared_ptr<memory::Account> of, std::uint64_t much)
    : account(std::move(of)), bytes(much) {
    if (account->take(bytes)) return;
    throw Error(ErrorCode::OutOfMemory,
                "a channel's segments on their way between a GPU and other processes take " +
                    bytes_text(bytes) + " of the host's memory, more than the " +
                    bytes_text(account->left()) + " left of the memory limit");
}

GpuPlace::GpuPlace(int gpu, Here const& here, Here const& far, State const& shape, Plan const& plan,
                   Resources const& resources, gpu::Shared shared, Here const* peers,
                   std::uint64_t behind)
    : GpuPlace(gpu, here, far, sizes_of(shape, plan, here, far, peers), resources, shared,
               peers != nullptr, behind) {}

GpuPlace::~GpuPlace() {
    if (importers_ == nullptr || pool_->shared() != gpu::Shared::Plainly) return;
    try {
        gpu::free_later(std::move(pool_),
                        [of = std::move(importers_)] { return of->use() != gpu::Use::OnGoing; });
    } catch (std::bad_alloc const&) {
        // Then it is freed now.
    }
}

gpu::DeviceMemory const& GpuPlace::share(std::shared_ptr<GpuImporters> importers) {
    importers_ = std::move(importers);
    pool_->lend_to_others([of = importers_] { return of->use(); });
    return *pool_;
}

GpuPlace::GpuPlace(int gpu, Here here, Here far, Sizes sizes, Resources const& resources,
                   gpu::Shared shared, bool is_peer, std::uint64_t behind)
    : gpu_(gpu),
      here_(std::move(here)),
      far_(std::move(far)),
      sizes_(is_peer ? with_tables_ahead(sizes) : sizes),
      behind_(behind),
      charge_(resources.account, sizes.host),
      reserve_(resources.reserve),
      kept_(resources.kept),
      pool_(reserve_->memory(gpu, sizes_.ahead + sizes.pool + behind, shared)),
      mail_(zeroed(*reserve_, gpu, sizes.mail)),
      host_(zeroed(*reserve_, gpu, sizes.host)) {}

// All of a state but its endpoints and its pool.
void GpuPlace::begin(std::pmr::memory_resource& memory, State& state,
                     std::function<void(State&)> const& fill) {
    fill(state);
    bring(memory, state.layout.columns, state.layout.column_count);
    bring(memory, state.carry_layout.columns, state.carry_layout.column_count);
    bring(memory, state.keys, state.key_count);
    bring(memory, state.owners, state.part_count);
    bring(memory, state.range.keys, state.range.key_count);
    bring(memory, state.range.values, std::size_t{state.range.count} * state.range.key_count);
    bring(memory, state.range.bytes, state.range.byte_count);
    bring(memory, state.destination_ids, state.destination_count);
    // For set_stages, behind all else.
    (void)make_table<State*>(memory, state.source_count);
}

void GpuPlace::own(std::shared_ptr<GpuTables> tables, std::size_t table) {
    // Of each endpoint a kernel will run, all at the same time.
    reserve_->make_streams(gpu_, std::max(here_.sources.size(), here_.destinations.size()));
    tables_ = std::move(tables);
    table_ = table;
    state_ = reinterpret_cast<State*>(tables_->image(table));
    stages_ = reinterpret_cast<State**>(tables_->image(table) + bytes_of(*state_) -
                                        Carver::piece(state_->source_count * sizeof(State*)));
    tables_->keep(table_, &state_->failed);
}

void GpuPlace::build(TableSource const& source, std::function<void(State&)> const& fill) {
    auto const build = [&](TableImages::Memories const& memories) {
        std::pmr::memory_resource& memory = *memories.front();
        State& state = *make_table<State>(memory, 1);
        begin(memory, state, fill);
        state.pool = sizes_.pool != 0 ? segments() : host_->data();
        Carver carver(segments(), sizes_.pool, true);
        Carver host(host_->data(), charge_.bytes, true, state.pool);
        std::pmr::monotonic_buffer_resource mail(mail_->data(), sizes_.mail,
                                                 std::pmr::null_memory_resource());
        bool const by_mail = sizes_.mail != 0;
        ChannelTables tables(state, source.plan, here_, far_, by_mail);
        tables.build(memory, carver, by_mail ? &mail : nullptr, &host);
    };
    TableSource own_source = source;
    own_source.heres = {here_};
    own_source.segments = {segments()};
    // Mail is no part of them, and built with them.
    bool const is_all = sizes_.mail == 0 && charge_.bytes == 0;
    own(std::make_shared<GpuTables>(*reserve_, std::vector<TableSite>{site()}, build,
                                    is_all ? kept_ : nullptr, std::move(own_source)),
        0);
}

TableSite GpuPlace::site() const {
    TableSite site{sizes_.tables, gpu_, sizes_.ahead != 0 ? pool_ : nullptr};
    for (std::uint32_t const source : here_.sources) {
        site.host_bytes = std::max(site.host_bytes, (source + 1) * sizeof(*State().flushed));
    }
    // A state lies first in its table.
    State const state;
    site.host_at = std::uint64_t(reinterpret_cast<char const*>(&state.flushed) -
                                 reinterpret_cast<char const*>(&state));
    return site;
}

void GpuPlace::build_peers(std::vector<GpuPeer> const& peers, Here const& all, TableSource source,
                           std::function<void(State&)> const& fill) {
    Plan const plan = source.plan;
    State shape;
    fill(shape);
    std::vector<TableSite> sites;
    std::vector<Carver> segments;
    std::shared_ptr<gpu::Reserve> reserve;
    std::shared_ptr<KeptTables> kept;
    char* origin = nullptr;
    for (GpuPeer const& peer : peers) {
        Sizes const sizes = sizes_of(shape, plan, peer.here, {}, &all);
        char* at = nullptr;
        if (peer.own != nullptr) {
            reserve = peer.own->reserve_;
            kept = peer.own->kept_;
            sites.push_back(peer.own->site());
            at = peer.own->segments();
        } else {
            sites.push_back({sizes.tables, 0, nullptr, peer.elsewhere});
            at = peer.elsewhere + with_tables_ahead(sizes).ahead;
        }
        if (origin == nullptr) origin = at;
        segments.emplace_back(at, sizes.pool, true, origin);
        source.heres.push_back(peer.here);
        source.segments.push_back(at);
    }
    auto const build = [&](TableImages::Memories const& memories) {
        Homes homes;
        std::vector<State*> states;
        std::vector<Carver> carvers = segments;
        for (std::size_t i = 0; i < peers.size(); ++i) {
            State& state = *states.emplace_back(make_table<State>(*memories[i], 1));
            begin(*memories[i], state, fill);
            state.pool = origin;
            homes.sources.resize(state.source_count);
            homes.destinations.resize(state.destination_count);
            for (auto const s : peers[i].here.sources) homes.sources[s] = std::uint32_t(i);
            for (auto const d : peers[i].here.destinations) {
                homes.destinations[d] = std::uint32_t(i);
            }
            homes.all.push_back({memories[i], &carvers[i]});
        }
        ChannelTables(*states.front(), plan, all).build(homes);
        for (std::size_t i = 1; i < peers.size(); ++i) {
            ChannelTables(*states[i], plan, all).repeat(*memories[i], *states.front());
        }
    };
    auto const tables =
        std::make_shared<GpuTables>(*reserve, sites, build, kept, std::move(source));
    for (std::size_t i = 0; i < peers.size(); ++i) {
        if (peers[i].own != nullptr) peers[i].own->own(tables, i);
    }
}

void GpuPlace::set_stages(std::vector<State*> const& images, std::vector<State*> const& on_gpu) {
    for (std::size_t s = 0; s < images.size(); ++s) {
        tables_->set(table_, stages_[s], images[s], on_gpu[s]);
    }
    State* const* const here = stages_;
    tables_->set(table_, state_->stages, here,
                 static_cast<State* const*>(tables_->on_gpu(table_, stages_)));
}

void GpuPlace::abandon() {
    pool_->abandon();
    mail_->abandon();
    host_->abandon();
    tables_->abandon(table_);
}

void GpuPlace::set_failed(ErrorCode code) {
    MGI_ASSERT(tables_ != nullptr, gpu_);  // nobody knows the channel before
    // Of a failed channel groups may be gone whose kernel is not (Attachment::launched was never called).
    if (code != ErrorCode::Deleted) abandon();
    auto const number = static_cast<std::uint32_t>(code);
    state_->failed.store(number, device::relaxed);
    tables_->write(table_, &state_->failed, &number, sizeof(number));
}

}  // namespace mgi
