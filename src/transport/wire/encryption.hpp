// What encrypts a wire over TCP: this process, or the kernel, where that is wanted and it has TLS (CONFIG_TLS). Either end has its own way of
// it, since both make the same records (records.hpp).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "transport/wire/records.hpp"
#include "transport/wire/socket.hpp"

namespace mgi::transport::wire {

struct EncryptionOptions {
    bool on = false;
    bool in_kernel = false;  // where it can
    // Of one way of a wire, which ends then: RFC 8446, section 5.5, has AES-GCM keep its margin for 2^24.5 of them.
    std::uint64_t most_records = std::uint64_t{1} << 24;
};

// Used by one thread at a time, and outlived by the socket, on which nothing but the handshake has been said.
class Encryption {
public:
    // Throws Error as hmac_sha256.
    Encryption(Descriptor const& socket, WireKeys const& keys, EncryptionOptions const& options);

    // As sendmsg without waiting: -1 with errno EAGAIN where there is no room, EKEYEXPIRED behind the last record. Without
    // pieces 0 means that nothing is `pending` any more.
    ssize_t write(std::span<iovec const> pieces);
    // Bytes that `write` has taken and that wait for room in the socket: to be called again when there is some. What the kernel has
    // taken it sends.
    [[nodiscard]] std::size_t pending() const { return writer_ ? writer_->pending().size() : 0; }
    // As readv without waiting, -1 with errno EBADMSG for what the other end has not sent.
    ssize_t read(std::span<iovec const> pieces);
    // `read` has something to give, or an error, whatever the socket has.
    [[nodiscard]] bool holds() const { return reader_ && reader_->holds(); }
    // A `read` that did not fill its pieces may not have been all: it was not the socket that had no more.
    [[nodiscard]] bool may_have_more() const { return reader_ && (!dry_ || reader_->holds()); }

    // The kernel does both ways.
    [[nodiscard]] bool in_kernel() const { return !writer_ && !reader_; }

private:
    bool flush();

    int const socket_;
    std::uint64_t const most_records_;
    std::uint64_t given_ = 0;             // records that the kernel has made, at most
    std::optional<RecordWriter> writer_;  // none: the kernel
    std::optional<RecordReader> reader_;
    bool dry_ = false;  // the socket had nothing more when it was last read
};

}  // namespace mgi::transport::wire
