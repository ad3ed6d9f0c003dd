#include "transport/wire/encryption.hpp"

#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/log.hpp"

namespace mgi::transport::wire {
namespace {

constexpr int kSolTls = 282;  // SOL_TLS, which older headers have not

// Makes it a socket of the kernel's TLS, which still passes on all bytes as they are.
bool reaches_kernel(int socket) {
    // A kernel that has none looks for its module each time.
    static std::atomic<bool> there{true};
    if (!there) return false;
    if (setsockopt(socket, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) == 0) return true;
    if (errno == ENOENT) there = false;
    return false;
}

// TLS_TX or TLS_RX. False: it cannot, and nothing has changed.
bool give_to_kernel(int socket, int way, RecordKey const& key) {
    tls12_crypto_info_aes_gcm_256 info{};
    info.info.version = TLS_1_3_VERSION;
    info.info.cipher_type = TLS_CIPHER_AES_GCM_256;
    static_assert(sizeof(info.salt) + sizeof(info.iv) == sizeof(key.nonce));
    std::memcpy(info.salt, key.nonce.data(), sizeof(info.salt));
    std::memcpy(info.iv, key.nonce.data() + sizeof(info.salt), sizeof(info.iv));
    static_assert(sizeof(info.key) == sizeof(key.key));
    std::memcpy(info.key, key.key.data(), sizeof(info.key));
    bool const done = setsockopt(socket, kSolTls, way, &info, sizeof(info)) == 0;
    wipe({reinterpret_cast<std::uint8_t*>(&info), sizeof(info)});
    return done;
}

ssize_t failed_with(int error) {
    errno = error;
    return -1;
}

}  // namespace

Encryption::Encryption(Descriptor const& socket, WireKeys const& keys,
                       EncryptionOptions const& options)
    : socket_(socket.get()), most_records_(options.most_records) {
    bool const kernel = options.in_kernel && reaches_kernel(socket_);
    if (!kernel || !give_to_kernel(socket_, TLS_TX, keys.out)) writer_.emplace(keys.out);
    if (!kernel || !give_to_kernel(socket_, TLS_RX, keys.in)) reader_.emplace(keys.in);
    static std::once_flag once;
    std::call_once(once, [this] {
        log::info("wires are encrypted by {}", in_kernel() ? "the kernel's TLS" : "this process");
    });
}

// False with errno: not all could be sent.
bool Encryption::flush() {
    while (pending() != 0) {
        auto const bytes = writer_->pending();
        ssize_t const put = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        writer_->sent(std::size_t(put));
    }
    return true;
}

ssize_t Encryption::write(std::span<iovec const> pieces) {
    if (writer_) {
        if (!flush()) return -1;
        if (pieces.empty()) return 0;
        if (writer_->records() >= most_records_) return failed_with(EKEYEXPIRED);
        std::size_t const taken = writer_->write(pieces);
        // What has no room now is pending.
        if (!flush() && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
        return ssize_t(taken);
    }
    if (pieces.empty()) return 0;
    if (given_ >= most_records_) return failed_with(EKEYEXPIRED);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());  // which sendmsg leaves as they are
    message.msg_iovlen = pieces.size();
    ssize_t const taken = sendmsg(socket_, &message, MSG_NOSIGNAL);
    // A call that finds no room may have begun a record.
    given_ += 1 + std::size_t(std::max<ssize_t>(taken, 0)) / kMostPlain;
    return taken;
}

ssize_t Encryption::read(std::span<iovec const> pieces) {
    if (!reader_) return readv(socket_, pieces.data(), int(pieces.size()));
    for (;;) {
        std::size_t const got = reader_->read(pieces);
        if (got != 0) return ssize_t(got);
        if (reader_->broken()) return failed_with(EBADMSG);
        auto const room = reader_->room();
        ssize_t const came = recv(socket_, room.data(), room.size(), 0);
        dry_ = came < ssize_t(room.size());
        // Whoever cuts the connection within a record is not the other end.
        if (came == 0 && reader_->in_midst()) return failed_with(EBADMSG);
        if (came <= 0) return came;
        reader_->came(std::size_t(came));
    }
}

}  // namespace mgi::transport::wire
