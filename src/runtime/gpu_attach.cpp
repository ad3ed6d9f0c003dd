// Groups on a GPU whose kernels somebody else starts.
#include <algorithm>

#include "core/log.hpp"
#include "gpu/memory.hpp"
#include "runtime/gpu_kernels.hpp"
#include "runtime/kernel_watch.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

class Attachment::State {
public:
    State(std::shared_ptr<Launch::State> launch, std::shared_ptr<KernelWatch> watch,
          Device const& device, std::uint32_t shared_bytes)
        : launch_(std::move(launch)),
          watch_(std::move(watch)),
          device_(device.name),
          gpu_(device.ordinal),
          told_(launch_->group_launched) {
        told_.assign(launch_->groups, false);
        groups_.first_number = launch_->first_number;
        groups_.count = groups_.blocks = launch_->groups;
        groups_.shared_bytes = shared_bytes;
    }
    ~State() {
        try {
            end_rest(std::make_exception_ptr(
                Error(ErrorCode::GroupFailed,
                      "the groups attached to endpoint " + std::to_string(launch_->endpoint.id) +
                          " on " + device_ +
                          " are gone, and Attachment::launched was not called for all of them")));
        } catch (std::exception const& error) {
            log::error("groups of endpoint {} that never came could not be ended: {}",
                       launch_->endpoint.id, error.what());
        }
    }
    State(State const&) = delete;
    State& operator=(State const&) = delete;

    [[nodiscard]] device::KernelGroups const& groups() const { return groups_; }
    [[nodiscard]] Launch launch() const { return Launch(launch_); }

    void launched(void* stream, std::uint32_t first, std::uint32_t count) {
        std::lock_guard const lock(mutex_);
        if (count == 0 || first >= told_.size() || count > told_.size() - first) {
            refuse(first, count, "this attachment has " + std::to_string(told_.size()));
        }
        auto const from = told_.begin() + first;
        if (std::find(from, from + count, true) != from + count) {
            refuse(first, count, "some of these were told of before, or abandoned");
        }
        auto const event = std::make_shared<gpu::OwnEvent>(gpu_, static_cast<gpu::Stream>(stream));
        watch_->add(first, count, [event] { return event->is_done(); });
        tell(first, count);
    }

    void abandon() {
        std::lock_guard const lock(mutex_);
        bool const none = std::find(told_.begin(), told_.end(), true) == told_.end();
        if (!none) return end_rest(nullptr);
        tell(0, launch_->groups);
        watch_->never_ran();
    }

private:
    [[noreturn]] void refuse(std::uint32_t first, std::uint32_t count, std::string const& why) {
        throw Error(ErrorCode::InvalidArgument, "groups " + std::to_string(first) + " to " +
                                                    std::to_string(std::uint64_t{first} + count) +
                                                    " of endpoint " +
                                                    std::to_string(launch_->endpoint.id) + " on " +
                                                    device_ + " cannot have been launched: " + why);
    }

    // Those that were not told of.
    void end_rest(std::exception_ptr const& exception) {
        auto const size = static_cast<std::uint32_t>(told_.size());
        for (std::uint32_t g = 0; g < size; ++g) {
            std::uint32_t const first = g;
            while (g < size && !told_[g]) ++g;
            if (g == first) continue;
            tell(first, g - first);
            watch_->end(first, g - first, exception);
        }
    }

    void tell(std::uint32_t first, std::uint32_t count) {
        std::lock_guard const lock(launch_->mutex);
        std::fill_n(told_.begin() + first, count, true);
    }

    std::shared_ptr<Launch::State> const launch_;
    std::shared_ptr<KernelWatch> const watch_;
    std::string const device_;
    int const gpu_;
    device::KernelGroups groups_;
    std::mutex mutex_;
    // By group: its kernel was told of, or never comes. Written under both mutexes, since the watchdog looks.
    std::vector<bool>& told_;
};

Attachment Runtime::Impl::attach(Endpoint endpoint, AttachOptions const& options) {
    Device const& device = device_of(endpoint);
    if (device.kind != VertexKind::Gpu) {
        throw Error(ErrorCode::InvalidArgument,
                    "endpoint " + std::to_string(endpoint.id) + " is on " + device.name +
                        ", where kernels are started by Runtime::launch; groups of kernels that "
                        "others start are for GPUs");
    }
    if (options.groups == 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "no groups to attach to endpoint " + std::to_string(endpoint.id));
    }
    check_kernel(endpoint, device, options.threads);
    auto const launch = new_launch(endpoint, options.groups, options.channels, false);
    std::uint32_t const scratch = scratch_of(*launch, options.shared_bytes);
    load_gpu_kernels(device.ordinal);
    warn_of_unknown_kernels();
    start_gpu_sorters(*launch);
    auto const watch = KernelWatch::start(watch_threads_, registry_, launch, device);
    try {
        auto state = std::make_shared<Attachment::State>(launch, watch, device, scratch);
        std::lock_guard const lock(registry_->mutex);
        registry_->launches.push_back(launch);
        return Attachment(std::move(state));
    } catch (...) {
        watch->never_ran();
        throw;
    }
}

Attachment Runtime::attach(Endpoint endpoint, AttachOptions const& options) {
    return impl_->attach(endpoint, options);
}

device::KernelGroups Attachment::groups() const {
    return state_->groups();
}

void Attachment::launched(void* stream, std::uint32_t first, std::uint32_t count) {
    state_->launched(stream, first, count);
}

void Attachment::launched(void* stream) {
    state_->launched(stream, 0, state_->groups().blocks);
}

void Attachment::abandon() {
    state_->abandon();
}

void Attachment::wait(std::chrono::milliseconds timeout) {
    state_->launch().wait(timeout);
}

bool Attachment::done() const {
    return state_->launch().done();
}

}  // namespace mgi
