// A stream over active messages: small pieces are copied into messages of their own, each large piece is a
// message that UCX takes from its place and lands in its place.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "transport/ucx/nic.hpp"

namespace mgi::transport::ucx {

class UcxStream final : public wire::Stream {
public:
    explicit UcxStream(Nic& nic);
    ~UcxStream() override;
    UcxStream(UcxStream const&) = delete;
    UcxStream& operator=(UcxStream const&) = delete;

    [[nodiscard]] std::string card() const override;
    void join(std::string_view far_card) override;
    std::size_t write(std::span<iovec const> pieces) override;
    std::size_t read(std::span<iovec const> room) override;
    [[nodiscard]] bool writable() const override;
    [[nodiscard]] bool readable() const override;
    [[nodiscard]] std::string const& broken() const override { return broken_; }
    bool finish() override;

    // For the NIC. A message has come; as ucp_am_recv_callback_t.
    ucs_status_t take(std::uint64_t sequence, void* data, std::size_t bytes,
                      std::uint64_t attributes);
    // The worker ends.
    void abandon();
    void break_off(std::string why);

private:
    using Clock = std::chrono::steady_clock;
    // One that has come, and is not read yet.
    struct Message {
        void* data = nullptr;  // UCX's, if not `copy`
        std::string copy;
        std::size_t bytes = 0;
        bool to_fetch = false;          // `data` stands for bytes that are still at the other end
        Operation* fetching = nullptr;  // them into `copy`
    };
    void send(void const* data, std::size_t bytes, std::string copy);
    void land(Message& message, std::span<iovec const> room);
    void fetch(Message& message);
    void begin_landing(Operation& operation, void* data);
    std::size_t take_in(std::span<iovec const> room);
    std::size_t take_landed();
    std::size_t copy_out(Message& message, std::span<iovec const> room);
    void release(Message& message);
    void end(Operation& operation, ucs_status_t status);
    [[nodiscard]] bool lands() const;
    [[nodiscard]] bool lands_in_gpus() const;
    bool leaves_memory();
    void close();
    bool ends_within(Clock::duration limit, ucs_status_ptr_t request);
    void renew();
    void has_landed(Operation& operation, ucs_status_t status);

    // UCX's C cannot be thrown through.
    static void sent(void* request, ucs_status_t status, void* operation) noexcept;
    static void landed(void* request, ucs_status_t status, std::size_t bytes,
                       void* operation) noexcept;
    static void failed(void* self, ucp_ep_h endpoint, ucs_status_t status) noexcept;

    Nic& nic_;
    Library const& ucx_;
    std::uint64_t token_ = 0;
    std::uint64_t far_token_ = 0;
    ucp_ep_h endpoint_ = nullptr;
    std::string broken_;
    bool failed_ = false;  // the endpoint: UCX says so

    std::uint64_t next_sent_ = 0;
    std::size_t sending_ = 0;        // messages
    std::size_t sending_large_ = 0;  // of those, the ones that are still in their owner's memory

    std::uint64_t next_read_ = 0;                // the first message that is not landing or read
    std::map<std::uint64_t, Message> messages_;  // by sequence
    std::size_t offset_ = 0;                     // read of the first one
    std::deque<Operation*> landing_;             // in sequence
    std::size_t landing_bytes_ = 0;
    bool waits_ = false;  // the next message, until something has landed
};

}  // namespace mgi::transport::ucx
