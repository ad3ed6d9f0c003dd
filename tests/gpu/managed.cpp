// Everything that a GPU test allocates is managed memory, which kernels and host code share: so the
// tables of a TinyChannel, built by host code, can be handed to a kernel as they are. Linked in, it
// replaces the global operators.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <new>

namespace {

void* managed(std::size_t bytes) {
    void* at = nullptr;  // from a 256-byte boundary on
    if (cudaMallocManaged(&at, bytes == 0 ? 1 : bytes) != cudaSuccess) throw std::bad_alloc();
    return at;
}

}  // namespace

void* operator new(std::size_t bytes) {
    return managed(bytes);
}
void* operator new[](std::size_t bytes) {
    return managed(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t) {
    return managed(bytes);
}
void* operator new[](std::size_t bytes, std::align_val_t) {
    return managed(bytes);
}
void operator delete(void* at) noexcept {
    cudaFree(at);
}
void operator delete[](void* at) noexcept {
    cudaFree(at);
}
void operator delete(void* at, std::size_t) noexcept {
    cudaFree(at);
}
void operator delete[](void* at, std::size_t) noexcept {
    cudaFree(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
    cudaFree(at);
}
void operator delete[](void* at, std::align_val_t) noexcept {
    cudaFree(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
    cudaFree(at);
}
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept {
    cudaFree(at);
}
