#include "topology/machine/shared_library.hpp"

#include <dlfcn.h>

namespace mgi::topology {

SharedLibrary::SharedLibrary(std::string const& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}

SharedLibrary::~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::address(char const* name) const {
    return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace mgi::topology
