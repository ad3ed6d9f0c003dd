#include "runtime/gpu_place.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/text.hpp"

namespace mgi {

using memory::Carver;

std::uint64_t GpuPlace::bytes_of(State const& shape) {
    return Carver::piece(sizeof(State)) +
           2 * Carver::piece(shape.layout.column_count * sizeof(device::ColumnLayout)) +
           Carver::piece(shape.key_count * sizeof(std::uint32_t)) +
           Carver::piece(shape.part_count * sizeof(device::u16)) +
           Carver::piece(shape.destination_count * sizeof(std::uint32_t)) +
           Carver::piece(shape.source_count * sizeof(State*));
}

GpuPlace::Sizes GpuPlace::sizes_of(State const& shape, Plan const& plan, Here const& here,
                                   Here const& far) {
    State counted;  // tables are built into a state, and only counted by one
    counted.layout = shape.layout;
    counted.carry_layout = shape.carry_layout;
    counted.routing = shape.routing;
    counted.source_count = shape.source_count;
    counted.destination_count = shape.destination_count;
    counted.lane_count = shape.lane_count;
    counted.max_groups = shape.max_groups;
    counted.takes_ahead = shape.takes_ahead;
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
                   std::shared_ptr<memory::Account> account, gpu::Shared shared)
    : GpuPlace(gpu, here, far, shape, sizes_of(shape, plan, here, far), std::move(account),
               shared) {}

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
                   std::shared_ptr<memory::Account> account, gpu::Shared shared)
    : gpu_(gpu),
      here_(std::move(here)),
      far_(std::move(far)),
      managed_(gpu, bytes_of(shape) + sizes.tables),
      charge_(std::move(account), sizes.host),
      pool_(std::make_unique<gpu::DeviceMemory>(gpu, sizes.pool, shared)),
      mail_(gpu, sizes.mail),
      host_(gpu, sizes.host),
      memory_(managed_.data(), managed_.bytes(), std::pmr::null_memory_resource()),
      state_(make_table<State>(memory_, 1)) {}

template <class T>
void GpuPlace::bring(T const*& array, std::size_t count) {
    if (count == 0) {
        array = nullptr;
        return;
    }
    T* const to = make_table<T>(memory_, count);
    std::copy_n(array, count, to);
    array = to;
}

void GpuPlace::build(Plan const& plan) {
    State& state = *state_;
    bring(state.layout.columns, state.layout.column_count);
    bring(state.carry_layout.columns, state.carry_layout.column_count);
    bring(state.keys, state.key_count);
    bring(state.owners, state.part_count);
    bring(state.destination_ids, state.destination_count);
    state.pool = pool_->bytes() != 0 ? pool_->data() : host_.data();
    Carver carver(pool_->data(), pool_->bytes(), true);
    Carver host(host_.data(), host_.bytes(), true, state.pool);
    std::pmr::monotonic_buffer_resource mail(mail_.data(), mail_.bytes(),
                                             std::pmr::null_memory_resource());
    ChannelTables tables(state, plan, here_, far_);
    tables.build(memory_, carver, mail_.bytes() == 0 ? nullptr : &mail, &host);
    managed_.settle();
}

void GpuPlace::set_stages(std::vector<State*> const& stages) {
    State** const table = make_table<State*>(memory_, stages.size());
    std::copy(stages.begin(), stages.end(), table);
    state_->stages = table;
    managed_.settle();
}

}  // namespace mgi
