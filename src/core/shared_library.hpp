/// \file
/// Libraries that a machine may or may not have, opened at run time.
#pragma once

#include <string>

namespace mgi {

class SharedLibrary {
public:
    /// By the name or path that the dynamic linker takes. No error where it is not there: ask `open`.
    explicit SharedLibrary(std::string const& name);
    ~SharedLibrary();
    SharedLibrary(SharedLibrary const&) = delete;
    SharedLibrary& operator=(SharedLibrary const&) = delete;

    [[nodiscard]] bool open() const { return handle_ != nullptr; }
    /// Why it is not open: "libcuda.so.1 not found", or what the dynamic linker says.
    [[nodiscard]] std::string const& problem() const { return problem_; }

    /// Sets `function` to the one of that name, or to null; whether it is there.
    template <class Function>
    bool get(char const* name, Function*& function) const {
        function = reinterpret_cast<Function*>(address(name));
        return function != nullptr;
    }

    /// Null where it is not there.
    [[nodiscard]] void* address(char const* name) const;

private:
    void* handle_;
    std::string problem_;
};

}  // namespace mgi
