/// \file
/// GPUs for tests: while a FakeDriver lives, gpu::Driver finds the driver that is made up.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/shared_library.hpp"
#include "gpu/driver.hpp"

namespace mgi::test {

/// Sets what tests/gpu_driver/fake_cuda.hpp lists, by its name without MGI_FAKE_CUDA_:
/// FakeDriver gpus({{"DEVICES", "2"}, {"PEERS", "none"}}); and LINKS (fake_nvml.cpp). One at a time, and no other thread may run that
/// reads the environment.
class FakeDriver {
public:
    using Settings = std::initializer_list<std::pair<std::string, std::string>>;

    explicit FakeDriver(Settings settings = {}) {
        set("MGI_CUDA_LIBRARY", MGI_FAKE_CUDA);
        // Without LINKS there is no NVML, whatever this machine has.
        set("MGI_NVML_LIBRARY", "none");
        for (auto const& [name, value] : settings) {
            if (name == "LINKS") set("MGI_NVML_LIBRARY", MGI_FAKE_CUDA);
            set("MGI_FAKE_CUDA_" + name, value);
        }
        gpu::Driver::look_again();
    }
    ~FakeDriver() {
        for (std::string const& name : set_) unsetenv(name.c_str());
        gpu::Driver::look_again();
    }
    FakeDriver(FakeDriver const&) = delete;
    FakeDriver& operator=(FakeDriver const&) = delete;

    /// As MGI_FAKE_CUDA_FAIL, counted from now on.
    void fail(std::string const& failures) const {
        void (*call)(char const*) = nullptr;
        if (library_.get("mgi_fake_cuda_fail", call)) call(failures.c_str());
    }
    /// How often the driver was called so since `fail`, or since it began.
    [[nodiscard]] std::uint64_t calls(std::string const& name) const {
        std::uint64_t (*call)(char const*) = nullptr;
        return library_.get("mgi_fake_cuda_calls", call) ? call(name.c_str()) : 0;
    }
    /// How many there are of "contexts", "memory", "mapped" (memory for that), "pinned", "registered", "streams" or "events".
    [[nodiscard]] std::size_t alive(std::string const& what) const {
        std::size_t (*call)(char const*) = nullptr;
        return library_.get("mgi_fake_cuda_alive", call) ? call(what.c_str()) : 0;
    }

private:
    void set(std::string const& name, std::string const& value) {
        setenv(name.c_str(), value.c_str(), 1);
        set_.push_back(name);
    }

    std::vector<std::string> set_;
    SharedLibrary library_{MGI_FAKE_CUDA};
};

}  // namespace mgi::test
