#include "runtime/gpu_place.hpp"

#include <algorithm>

namespace mgi {

using memory::Carver;

std::uint64_t GpuPlace::bytes_of(State const& shape) {
    return Carver::piece(sizeof(State)) +
           2 * Carver::piece(shape.layout.column_count * sizeof(device::ColumnLayout)) +
           Carver::piece(shape.key_count * sizeof(std::uint32_t)) +
           Carver::piece(shape.part_count * sizeof(device::u16)) +
           Carver::piece(shape.destination_count * sizeof(std::uint32_t));
}

GpuPlace::GpuPlace(int gpu, State const& shape, ChannelTables const& sized)
    : gpu_(gpu),
      managed_(gpu, bytes_of(shape) + sized.bytes()),
      pool_(gpu, sized.pool_bytes()),
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

void GpuPlace::build(ChannelTables& tables) {
    State& state = *state_;
    bring(state.layout.columns, state.layout.column_count);
    bring(state.carry_layout.columns, state.carry_layout.column_count);
    bring(state.keys, state.key_count);
    bring(state.owners, state.part_count);
    bring(state.destination_ids, state.destination_count);
    state.pool = pool_.data();
    Carver carver(pool_.data(), pool_.bytes(), true);
    tables.build(memory_, carver);
    managed_.settle();
}

}  // namespace mgi
