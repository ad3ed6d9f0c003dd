#include "core/shared_library.hpp"

#include <dlfcn.h>

namespace mgi {

SharedLibrary::SharedLibrary(std::string const& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    char const* const said =
        dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is the thread's own
    problem_ = said != nullptr ? said : name + " cannot be opened";
    if (problem_ == name + ": cannot open shared object file: No such file or directory") {
        problem_ = name + " not found";
    }
}

SharedLibrary::~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::address(char const* name) const {
    return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace mgi
