// A context and a worker of UCX for one NIC, so that MGI chooses by which NIC bytes go.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/ucx/gpu_memories.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/ucx.hpp"

namespace mgi::transport::ucx {

class Nic;
class UcxStream;

// Of every message, beside its bytes.
struct MessageHeader {
    std::uint64_t token = 0;     // of the stream that gets it, which only its other end was told
    std::uint64_t sequence = 0;  // 0, 1, ... on the stream: UCX may bring them in any order
};

// What UCX works on; it lies here until UCX says that it is done, whoever else is gone by then.
struct Operation {
    Nic* nic = nullptr;
    UcxStream* stream = nullptr;  // none: it is gone
    MessageHeader header;
    std::string copy;           // the bytes, or none: they are where they were
    std::vector<iovec> pieces;  // to land in; as ucp_dt_iov_t
    std::size_t bytes = 0;
    bool done = false;
    std::list<Operation>::iterator self;
};

class Nic final : public wire::Medium {
public:
    explicit Nic(std::string devices);
    ~Nic() override;
    Nic(Nic const&) = delete;
    Nic& operator=(Nic const&) = delete;

    [[nodiscard]] std::string why_not_gpus() const override { return gpus_->why_not(); }
    void add_memory(wire::GpuMemory const& memory) override { gpus_->add(memory); }
    void remove_memory(wire::GpuMemory const& memory) noexcept override { gpus_->remove(memory); }
    std::unique_ptr<wire::Stream> make_stream() override;
    void progress() override;
    bool arm() override;
    [[nodiscard]] int descriptor() const override { return descriptor_; }

    // For its streams.
    [[nodiscard]] Library const& ucx() const { return ucx_; }
    [[nodiscard]] GpuMemories const& gpus() const { return *gpus_; }
    [[nodiscard]] ucp_worker_h worker() const { return worker_; }
    [[nodiscard]] std::string const& address() const { return address_; }
    void enter(std::uint64_t token, UcxStream& stream) { streams_[token] = &stream; }
    void leave(std::uint64_t token) { streams_.erase(token); }
    Operation& begin(UcxStream& stream);
    void end(Operation& operation) { operations_.erase(operation.self); }
    void disown(UcxStream const& stream);
    // Ends whatever still lands, and with it all streams of the NIC: the last resort.
    void renew();

private:
    void make_worker();
    void set_up_worker();
    void end_worker();
    static ucs_status_t arrived(void* self, void const* header, std::size_t header_bytes,
                                void* data, std::size_t bytes, ucp_am_recv_param_t const* param);

    Library const& ucx_;
    std::string const devices_;
    ucp_context_h context_ = nullptr;
    std::unique_ptr<GpuMemories> gpus_ = std::make_unique<GpuMemories>(ucx_, context_);
    ucp_worker_h worker_ = nullptr;
    int descriptor_ = -1;
    std::string address_;
    std::map<std::uint64_t, UcxStream*> streams_;
    std::list<Operation> operations_;
};

}  // namespace mgi::transport::ucx
