/// \file
/// Libraries that a machine may or may not have, opened at run time.
#pragma once

#include <string>

namespace mgi::topology {

class SharedLibrary {
public:
    /// By the name or path that the dynamic linker takes. No error where it is not there: ask `open`.
    explicit SharedLibrary(std::string const& name);
    ~SharedLibrary();
    SharedLibrary(SharedLibrary const&) = delete;
    SharedLibrary& operator=(SharedLibrary const&) = delete;

    [[nodiscard]] bool open() const { return handle_ != nullptr; }

    /// Sets `function` to the one of that name, or to null; whether it is there.
    template <class Function>
    bool get(char const* name, Function*& function) const {
        function = reinterpret_cast<Function*>(address(name));
        return function != nullptr;
    }

private:
    [[nodiscard]] void* address(char const* name) const;

    void* handle_;
};

}  // namespace mgi::topology
