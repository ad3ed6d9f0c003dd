#include "gpu_allocator.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "interpreter.hpp"

namespace mgi::python {

namespace {

// Python ends threads that take the GIL back once it ends, and unwinds them, through noexcept functions as well. Such a
// thread stays here for good, as in Unlocked.
[[noreturn]] void stay() {
    for (;;) pause();
}

std::string text_of(nb::python_error const& error) {
    // A signal's handler runs in whichever Python code comes next: it is the main thread's, which gets it again.
    if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    try {
        return std::string(nb::str(error.type().attr("__name__")).c_str()) + ": " +
               nb::str(error.value()).c_str();
    } catch (nb::python_error const&) {
        return error.what();
    }
}

void* address_of(nb::object const& given) {
    if (given.is_none()) return nullptr;
    std::uintptr_t address = 0;
    if (nb::try_cast(given, address)) {
        return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    }
    throw std::runtime_error(std::string("it returned ") + nb::repr(given).c_str() +
                             ", which is no address");
}

// `arguments`: of the method.
template <class... Arguments>
void* allocate(PyObject* allocator, char const* method, Arguments... arguments) {
    Locked const locked;
    if (!locked) throw std::runtime_error("Python's interpreter has ended");
    try {
        return address_of(nb::handle(allocator).attr(method)(arguments...));
    } catch (abi::__forced_unwind const&) {
        stay();
    } catch (nb::python_error const& error) {
        throw std::runtime_error(text_of(error));
    }
}

template <class... Arguments>
void deallocate(PyObject* allocator, char const* method, Arguments... arguments) {
    Locked const locked;
    if (!locked) return;
    try {
        nb::handle(allocator).attr(method)(arguments...);
    } catch (abi::__forced_unwind const&) {
        stay();
    } catch (nb::python_error& error) {
        error.discard_as_unraisable("mgi gives GPU memory back");
    }
}

}  // namespace

GpuAllocator gpu_allocator_of(nb::object const& allocator) {
    if (allocator.is_none()) return {};
    std::shared_ptr<void const> const held = hold_object(allocator);
    auto const object = [held] { return static_cast<PyObject*>(const_cast<void*>(held.get())); };
    auto const number = [](void* of) { return reinterpret_cast<std::uintptr_t>(of); };
    GpuAllocator made;
    made.allocate = [object](int gpu, std::uint64_t bytes) {
        return allocate(object(), "allocate", gpu, bytes);
    };
    made.deallocate = [object, number](int gpu, void* at, std::uint64_t bytes) {
        deallocate(object(), "deallocate", gpu, number(at), bytes);
    };
    if (!nb::hasattr(allocator, "allocate_in_stream")) return made;
    made.allocate_in_stream = [object, number](int gpu, std::uint64_t bytes, void* stream) {
        return allocate(object(), "allocate_in_stream", gpu, bytes, number(stream));
    };
    made.deallocate_in_stream = [object, number](int gpu, void* at, std::uint64_t bytes,
                                                 void* stream) {
        deallocate(object(), "deallocate_in_stream", gpu, number(at), bytes, number(stream));
    };
    return made;
}

}  // namespace mgi::python
