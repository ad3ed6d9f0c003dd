/// \file
/// A runtime as the module's classes hold it.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include <mgi/runtime.hpp>

#include "interpreter.hpp"

namespace mgi::python {

namespace nb = nanobind;

/// Keeps a runtime until Python drops or closes it. Its end, which waits for groups that run, does
/// not hold the GIL: they may have Arrow memory of Python's to release.
class RuntimeHolder {
public:
    explicit RuntimeHolder(Runtime runtime) : runtime_(std::move(runtime)) {}
    RuntimeHolder(RuntimeHolder const&) = delete;
    RuntimeHolder& operator=(RuntimeHolder const&) = delete;
    ~RuntimeHolder() { close(); }

    /// Throws Error(Deleted) once closed.
    [[nodiscard]] Runtime& get() {
        if (!runtime_) throw Error(ErrorCode::Deleted, "this runtime was closed");
        return *runtime_;
    }
    /// Gives up the runtime. Called with the GIL; a call that still uses it keeps it until it ends.
    void close() {
        std::optional<Runtime> last = std::move(runtime_);
        runtime_.reset();
        Unlocked const unlocked;
        last.reset();
    }

private:
    std::optional<Runtime> runtime_;
};

}  // namespace mgi::python
