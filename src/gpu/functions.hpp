/// \file
/// The functions of NVIDIA's driver that MGI calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpu/types.hpp"

namespace mgi::gpu {

/// The name of a function in the library, where `cuda.h` may have another one for it.
template <std::size_t N>
struct Symbol {
    char text[N];
    constexpr Symbol(char const (&name)[N]) { std::copy_n(name, N, text); }
};

/// What all functions are to who opens the library.
struct AnyCall {
    char const* symbol = nullptr;
    void* address = nullptr;
};

/// One function, called as the driver's own: its parameters' types are Args.
template <Symbol kName, class... Args>
class Call : AnyCall {
public:
    using Signature = Result(Args...);
    static constexpr std::string_view kSymbol = kName.text;

    explicit Call(std::vector<AnyCall*>& all) : AnyCall{kName.text} { all.push_back(this); }
    Call(Call const&) = delete;
    Call& operator=(Call const&) = delete;

    [[nodiscard]] bool there() const { return address != nullptr; }
    Result operator()(Args... args) const { return reinterpret_cast<Signature*>(address)(args...); }
};

/// All are there once the library is open. Thread-safe as the driver is, which is: entirely. Pointers to
/// device memory are Addresses; streams are always told; the legacy one is only asked where it has got to.
class Functions {
protected:
    Functions() = default;
    std::vector<AnyCall*> all_;

public:
    using Bytes = std::size_t;

    Call<"cuInit", unsigned> cuInit{all_};
    Call<"cuDriverGetVersion", int*> cuDriverGetVersion{all_};
    Call<"cuGetErrorName", Result, char const**> cuGetErrorName{all_};
    Call<"cuGetErrorString", Result, char const**> cuGetErrorString{all_};
    Call<"cuModuleGetLoadingMode", LoadingMode*> cuModuleGetLoadingMode{all_};

    // Devices.
    Call<"cuDeviceGetCount", int*> cuDeviceGetCount{all_};
    Call<"cuDeviceGet", Ordinal*, int> cuDeviceGet{all_};
    Call<"cuDeviceGetName", char*, int, Ordinal> cuDeviceGetName{all_};
    Call<"cuDeviceGetUuid_v2", Uuid*, Ordinal> cuDeviceGetUuid{all_};
    Call<"cuDeviceGetAttribute", int*, Attribute, Ordinal> cuDeviceGetAttribute{all_};
    Call<"cuDeviceTotalMem_v2", Bytes*, Ordinal> cuDeviceTotalMem{all_};
    Call<"cuDeviceGetPCIBusId", char*, int, Ordinal> cuDeviceGetPCIBusId{all_};
    Call<"cuDeviceCanAccessPeer", int*, Ordinal, Ordinal> cuDeviceCanAccessPeer{all_};
    Call<"cuDeviceGetP2PAttribute", int*, PeerAttribute, Ordinal, Ordinal> cuDeviceGetP2PAttribute{
        all_};

    // Contexts.
    Call<"cuDevicePrimaryCtxRetain", Context*, Ordinal> cuDevicePrimaryCtxRetain{all_};
    Call<"cuDevicePrimaryCtxRelease_v2", Ordinal> cuDevicePrimaryCtxRelease{all_};
    Call<"cuCtxSetCurrent", Context> cuCtxSetCurrent{all_};
    Call<"cuCtxGetCurrent", Context*> cuCtxGetCurrent{all_};
    Call<"cuCtxSynchronize"> cuCtxSynchronize{all_};
    Call<"cuCtxEnablePeerAccess", Context, unsigned> cuCtxEnablePeerAccess{all_};
    Call<"cuCtxDisablePeerAccess", Context> cuCtxDisablePeerAccess{all_};

    // Memory.
    Call<"cuMemAlloc_v2", Address*, Bytes> cuMemAlloc{all_};
    Call<"cuMemFree_v2", Address> cuMemFree{all_};
    Call<"cuMemGetInfo_v2", Bytes*, Bytes*> cuMemGetInfo{all_};
    Call<"cuMemHostAlloc", void**, Bytes, unsigned> cuMemHostAlloc{all_};
    Call<"cuMemFreeHost", void*> cuMemFreeHost{all_};
    Call<"cuMemHostRegister_v2", void*, Bytes, unsigned> cuMemHostRegister{all_};
    Call<"cuMemHostUnregister", void*> cuMemHostUnregister{all_};
    Call<"cuMemHostGetDevicePointer_v2", Address*, void*, unsigned> cuMemHostGetDevicePointer{all_};
    Call<"cuPointerGetAttribute", void*, PointerAttribute, Address> cuPointerGetAttribute{all_};
    Call<"cuFlushGPUDirectRDMAWrites", int, int> cuFlushGPUDirectRDMAWrites{all_};
    Call<"cuIpcGetMemHandle", IpcHandle*, Address> cuIpcGetMemHandle{all_};
    Call<"cuIpcOpenMemHandle_v2", Address*, IpcHandle, unsigned> cuIpcOpenMemHandle{all_};
    Call<"cuIpcCloseMemHandle", Address> cuIpcCloseMemHandle{all_};

    // Memory that is mapped.
    Call<"cuMemGetAllocationGranularity", Bytes*, MappedKind const*, int>
        cuMemGetAllocationGranularity{all_};
    Call<"cuMemCreate", MappedMemory*, Bytes, MappedKind const*, unsigned long long> cuMemCreate{
        all_};
    Call<"cuMemRelease", MappedMemory> cuMemRelease{all_};
    Call<"cuMemAddressReserve", Address*, Bytes, Bytes, Address, unsigned long long>
        cuMemAddressReserve{all_};
    Call<"cuMemAddressFree", Address, Bytes> cuMemAddressFree{all_};
    Call<"cuMemMap", Address, Bytes, Bytes, MappedMemory, unsigned long long> cuMemMap{all_};
    Call<"cuMemUnmap", Address, Bytes> cuMemUnmap{all_};
    Call<"cuMemSetAccess", Address, Bytes, MappedAccess const*, Bytes> cuMemSetAccess{all_};
    Call<"cuMemExportToShareableHandle", void*, MappedMemory, int, unsigned long long>
        cuMemExportToShareableHandle{all_};
    Call<"cuMemImportFromShareableHandle", MappedMemory*, void*, int>
        cuMemImportFromShareableHandle{all_};

    // Copies.
    Call<"cuMemcpyAsync", Address, Address, Bytes, Stream> cuMemcpyAsync{all_};
    Call<"cuMemcpyHtoDAsync_v2", Address, void const*, Bytes, Stream> cuMemcpyHtoDAsync{all_};
    Call<"cuMemcpyDtoHAsync_v2", void*, Address, Bytes, Stream> cuMemcpyDtoHAsync{all_};
    Call<"cuMemcpyDtoDAsync_v2", Address, Address, Bytes, Stream> cuMemcpyDtoDAsync{all_};
    Call<"cuMemcpyPeerAsync", Address, Context, Address, Context, Bytes, Stream> cuMemcpyPeerAsync{
        all_};
    Call<"cuMemsetD8Async", Address, unsigned char, Bytes, Stream> cuMemsetD8Async{all_};
    Call<"cuStreamWriteValue64_v2", Stream, Address, std::uint64_t, unsigned> cuStreamWriteValue64{
        all_};

    // Streams, events, launches.
    Call<"cuStreamCreate", Stream*, unsigned> cuStreamCreate{all_};
    Call<"cuStreamCreateWithPriority", Stream*, unsigned, int> cuStreamCreateWithPriority{all_};
    Call<"cuStreamDestroy_v2", Stream> cuStreamDestroy{all_};
    Call<"cuStreamQuery", Stream> cuStreamQuery{all_};
    Call<"cuStreamSynchronize", Stream> cuStreamSynchronize{all_};
    Call<"cuStreamWaitEvent", Stream, Event, unsigned> cuStreamWaitEvent{all_};
    Call<"cuEventCreate", Event*, unsigned> cuEventCreate{all_};
    Call<"cuEventRecord", Event, Stream> cuEventRecord{all_};
    Call<"cuEventQuery", Event> cuEventQuery{all_};
    Call<"cuEventDestroy_v2", Event> cuEventDestroy{all_};
    Call<"cuFuncGetModule", Module*, Function> cuFuncGetModule{all_};
    Call<"cuModuleGetFunctionCount", unsigned*, Module> cuModuleGetFunctionCount{all_};
    Call<"cuModuleEnumerateFunctions", Function*, unsigned, Module> cuModuleEnumerateFunctions{
        all_};
    Call<"cuFuncLoad", Function> cuFuncLoad{all_};
    Call<"cuLaunchHostFunc", Stream, HostFunction, void*> cuLaunchHostFunc{all_};
    Call<"cuLaunchKernel", Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, Stream, void**, void**>
        cuLaunchKernel{all_};
};

}  // namespace mgi::gpu
