#include "runtime/gpu_place.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/text.hpp"

namespace mgi {

using memory::Carver;

namespace {

std::shared_ptr<gpu::PinnedMemory> zeroed(gpu::Reserve& reserve, int gpu, std::uint64_t bytes) {
    auto memory = reserve.pinned(gpu, bytes);
    if (bytes != 0) std::memset(memory->data(), 0, bytes);
    return memory;
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
           Carver::piece(shape.part_count * sizeof(device::u16)) +
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
    if (peers != nullptr) {
        ChannelTables const tables(counted, plan, *peers);
        return {tables.bytes(here), tables.home_bytes(here), 0, 0};
    }
    ChannelTables const tables(counted, plan, here, far);
    return {tables.bytes(), tables.pool_bytes(),
            plan.transfer == Transfer::ByReference ? 0 : tables.mail_bytes(), tables.far_bytes()};
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
                   Resources const& resources, gpu::Shared shared, Here const* peers)
    : GpuPlace(gpu, here, far, shape, sizes_of(shape, plan, here, far, peers), resources, shared) {}

GpuPlace::~GpuPlace() {
    if (importers_ == nullptr || pool_->shared() != gpu::Shared::Plainly) return;
    try {
        gpu::free_later(std::move(pool_),
                        [of = std::move(importers_)] { return of->have_let_go(); });
    } catch (std::bad_alloc const&) {
        // Then it is freed now.
    }
}

gpu::DeviceMemory const& GpuPlace::share(std::shared_ptr<GpuImporters> importers) {
    importers_ = std::move(importers);
    return *pool_;
}

GpuPlace::GpuPlace(int gpu, Here here, Here far, State const& shape, Sizes const& sizes,
                   Resources const& resources, gpu::Shared shared)
    : gpu_(gpu),
      here_(std::move(here)),
      far_(std::move(far)),
      table_bytes_(bytes_of(shape) + sizes.tables),
      pool_bytes_(sizes.pool),
      mail_bytes_(sizes.mail),
      charge_(resources.account, sizes.host),
      reserve_(resources.reserve),
      pool_(shared == gpu::Shared::Not ? reserve_->memory(gpu, sizes.pool) : reserve_->make([&] {
          return std::make_shared<gpu::DeviceMemory>(gpu, sizes.pool, shared);
      })),
      mail_(zeroed(*reserve_, gpu, sizes.mail)),
      host_(zeroed(*reserve_, gpu, sizes.host)) {}

// All of a state but its endpoints and its pool.
void GpuPlace::begin(std::pmr::memory_resource& memory, State& state,
                     std::function<void(State&)> const& fill) const {
    fill(state);
    bring(memory, state.layout.columns, state.layout.column_count);
    bring(memory, state.carry_layout.columns, state.carry_layout.column_count);
    bring(memory, state.keys, state.key_count);
    bring(memory, state.owners, state.part_count);
    bring(memory, state.destination_ids, state.destination_count);
    // For set_stages; known by where it lies.
    state.stages = make_table<State*>(memory, state.source_count);
}

void GpuPlace::own(std::shared_ptr<GpuTables> tables, std::size_t table) {
    tables_ = std::move(tables);
    table_ = table;
    state_ = reinterpret_cast<State*>(tables_->image(table));
    stages_ = const_cast<State**>(state_->stages);
    tables_->set(table_, state_->stages, static_cast<State* const*>(nullptr),
                 static_cast<State* const*>(nullptr));
    tables_->keep(table_, &state_->failed);
}

void GpuPlace::build(Plan const& plan, std::function<void(State&)> const& fill) {
    auto const build = [&](TableImages::Memories const& memories) {
        std::pmr::memory_resource& memory = *memories.front();
        State& state = *make_table<State>(memory, 1);
        begin(memory, state, fill);
        state.pool = pool_bytes_ != 0 ? pool_->data() : host_->data();
        Carver carver(pool_->data(), pool_bytes_, true);
        Carver host(host_->data(), charge_.bytes, true, state.pool);
        std::pmr::monotonic_buffer_resource mail(mail_->data(), mail_bytes_,
                                                 std::pmr::null_memory_resource());
        ChannelTables tables(state, plan, here_, far_);
        tables.build(memory, carver, mail_bytes_ == 0 ? nullptr : &mail, &host);
    };
    own(std::make_shared<GpuTables>(*reserve_, std::vector<int>{gpu_},
                                    std::vector<std::uint64_t>{table_bytes_}, build),
        0);
}

void GpuPlace::build_peers(std::vector<std::unique_ptr<GpuPlace>> const& places, Here const& all,
                           Plan const& plan, std::function<void(State&)> const& fill) {
    std::vector<int> gpus;
    std::vector<std::uint64_t> bytes;
    for (auto const& place : places) {
        gpus.push_back(place->gpu_);
        bytes.push_back(place->table_bytes_);
    }
    auto const build = [&](TableImages::Memories const& memories) {
        Homes homes;
        std::vector<State*> states;
        std::vector<Carver> carvers;
        char* const origin = places.front()->pool_->data();
        for (std::size_t i = 0; i < places.size(); ++i) {
            GpuPlace const& place = *places[i];
            State& state = *states.emplace_back(make_table<State>(*memories[i], 1));
            place.begin(*memories[i], state, fill);
            state.pool = origin;
            carvers.emplace_back(place.pool_->data(), place.pool_bytes_, true, origin);
            homes.sources.resize(state.source_count);
            homes.destinations.resize(state.destination_count);
            for (auto const s : place.here_.sources) homes.sources[s] = std::uint32_t(i);
            for (auto const d : place.here_.destinations) homes.destinations[d] = std::uint32_t(i);
        }
        for (std::size_t i = 0; i < places.size(); ++i) {
            homes.all.push_back({memories[i], &carvers[i]});
        }
        ChannelTables(*states.front(), plan, all).build(homes);
        for (std::size_t i = 1; i < places.size(); ++i) {
            ChannelTables(*states[i], plan, all).repeat(*memories[i], *states.front());
        }
    };
    auto const tables = std::make_shared<GpuTables>(*places.front()->reserve_, gpus, bytes, build);
    for (std::size_t i = 0; i < places.size(); ++i) places[i]->own(tables, i);
}

void GpuPlace::set_stages(std::vector<State*> const& images, std::vector<State*> const& on_gpu) {
    for (std::size_t s = 0; s < images.size(); ++s) {
        tables_->set(table_, stages_[s], images[s], on_gpu[s]);
    }
    State* const* const here = stages_;
    tables_->set(table_, state_->stages, here,
                 static_cast<State* const*>(tables_->on_gpu(table_, stages_)));
}

void GpuPlace::set_failed(ErrorCode code) {
    // Of a failed channel groups may be gone whose kernel is not (Attachment::launched was never called).
    if (code != ErrorCode::Deleted) {
        pool_->abandon();
        mail_->abandon();
        host_->abandon();
        tables_->abandon(table_);
    }
    auto const number = static_cast<std::uint32_t>(code);
    state_->failed.store(number, device::relaxed);
    tables_->write(table_, &state_->failed, &number, sizeof(number));
}

}  // namespace mgi
