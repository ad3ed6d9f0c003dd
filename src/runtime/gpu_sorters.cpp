// Sorters on GPUs: kernels beside the user's, which start with the first launch at their source, since memory can
// be had as long as nothing is resident.
#include <atomic>

#include "gpu/memory.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

constexpr std::uint32_t kSorterThreads = 256;

std::atomic<GpuSorterStart> how_sorters_start{nullptr};

}  // namespace

bool provide_gpu_sorters(GpuSorterStart start) noexcept {
    how_sorters_start = start;
    return true;
}

std::uint32_t Runtime::Impl::gpu_sorters_on(Device const& device) const {
    std::uint32_t blocks = 0;
    std::lock_guard const lock(registry_->mutex);
    for (auto const& launch : registry_->launches) {
        if (launch->sorts && launch->endpoint.device == device.index && launch->runs()) {
            blocks += launch->groups;
        }
    }
    return blocks;
}

Runtime::Impl::Sorted Runtime::Impl::without_gpu_sorters(Launch::State const& launch) const {
    Sorted wanted;
    std::lock_guard const lock(registry_->mutex);
    for (auto const& [id, channel] : registry_->channels) {
        if (!channel->has_sorters()) continue;
        if (!launch.given.empty() && !launch.was_given(channel->state())) continue;
        std::uint32_t const source = channel->source_index(launch.endpoint);
        if (source != ChannelImpl::kNone && channel->wants_gpu_sorters(source)) {
            wanted.emplace_back(channel, source);
        }
    }
    return wanted;
}

void Runtime::Impl::start_gpu_sorters(Launch::State const& launch) {
    for (auto const& [channel, source] : without_gpu_sorters(launch)) {
        if (!channel->begin_gpu_sorters(source)) continue;
        try {
            start_gpu_sorters(channel, source);
        } catch (...) {
            channel->forget_gpu_sorters(source);
            throw;
        }
    }
}

void Runtime::Impl::start_gpu_sorters(std::shared_ptr<ChannelImpl> const& channel,
                                      std::uint32_t source) {
    GpuSorterStart const begin = how_sorters_start;
    if (begin == nullptr) {
        throw Error(ErrorCode::InvalidArgument,
                    channel->describe() +
                        " has sorters on a GPU, and this program has no kernel for them; include "
                        "<mgi/gpu_sorters.hpp> in one of its files that nvcc compiles");
    }
    Endpoint const endpoint = channel->spec().sources[source];
    Device const& device = device_of(endpoint);
    GpuSorters sorters;
    sorters.channel = channel->given_at(endpoint);
    sorters.source = source;
    sorters.stage = channel->stages()[source]->given_at(endpoint);
    sorters.failures = channel->gpu_sorter_failures(source);
    LaunchOptions options;
    options.groups = channel->spec().options.sorters;
    options.threads = kSorterThreads;
    auto const launch = new_launch(endpoint, options.groups,
                                   {device::Channel(sorters.channel, source, ChannelImpl::kNone),
                                    device::Channel(sorters.stage, 0, ChannelImpl::kNone)},
                                   true);
    auto const columns =
        static_cast<std::uint32_t>((channel->schema().size() + 1) * sizeof(device::ColumnView));
    std::uint32_t const scratch = scratch_of(*launch, columns);
    // The launch holds on to the channel until its groups have ended.
    auto const after = [raw = channel.get(), failures = sorters.failures, blocks = options.groups] {
        for (std::uint32_t block = 0; block < blocks; ++block) {
            auto const code = static_cast<ErrorCode>(failures[block]);
            if (code == ErrorCode::Ok || raw->failed()) continue;
            throw Error(code, std::string("a sorter could not go on: ") + to_string(code));
        }
    };
    (void)start_on_gpu(
        launch, device, options, scratch,
        [begin, sorters](GpuLaunch const& on) {
            GpuSorters all = sorters;
            all.launch = on;
            begin(all);
        },
        after);
}

}  // namespace mgi
