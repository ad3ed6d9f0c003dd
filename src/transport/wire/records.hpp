// The records of an encrypted wire, as TLS 1.3 has them (RFC 8446, section 5.2): five bytes of header, up to 16 KiB of the
// wire's bytes with one that says what they are, and 16 that prove them, by AES-256-GCM. The kernel's TLS makes the same
// ones (encryption.hpp), so each end may use either.
//
// Here is no I/O, and nothing waits.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/wire/crypto.hpp"

namespace mgi::transport::wire {

// Of one way of one connection, and used for nothing else. It wipes itself.
struct RecordKey {
    RecordKey() = default;
    ~RecordKey();
    RecordKey(RecordKey const&) = default;
    RecordKey& operator=(RecordKey const&) = default;

    Secret key{};
    std::array<std::uint8_t, 12> nonce{};  // of record 0; that of record n is this, xor n
};

// Of both ways, as one end has them.
struct WireKeys {
    RecordKey out;
    RecordKey in;
};

inline constexpr std::size_t kMostPlain = 16384;  // of the wire's bytes in one record
inline constexpr std::size_t kRecordHeader = 5;
inline constexpr std::size_t kRecordOverhead = kRecordHeader + 1 + 16;
inline constexpr std::size_t kMostRecord = kMostPlain + kRecordOverhead;

// Pieces of memory, one after the other.
class PieceCursor {
public:
    explicit PieceCursor(std::span<iovec const> pieces);
    [[nodiscard]] std::size_t left() const { return left_; }
    // The next bytes that lie together, so many at most. Not called at the end.
    std::span<std::uint8_t> next(std::size_t most);

private:
    std::span<iovec const> pieces_;
    std::size_t at_ = 0;  // in the first one
    std::size_t left_ = 0;
};

// A key, and the number of the next record; both ends count, so that no record can come twice, be left out, or come out
// of turn.
class RecordCipher {
public:
    // Throws Error as hmac_sha256.
    RecordCipher(RecordKey const& key, bool encrypts);

    // Makes a record of the next bytes of `plain`, kMostPlain at most, at `out`, where kMostRecord bytes are; returns its
    // length.
    std::size_t seal(PieceCursor& plain, std::uint8_t* out);
    // Writes what is in a record into `room`, which has room for it. False: it is not the record that the other end has
    // made, and what stands in the room means nothing.
    bool open(std::span<std::uint8_t const> record, PieceCursor& room);

    // So many records it has made or opened.
    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    void begin(std::uint8_t const* header);
    void update(std::uint8_t* out, std::uint8_t const* in, std::size_t bytes);

    std::unique_ptr<void, void (*)(void*)> cipher_;
    std::array<std::uint8_t, 12> const nonce_;
    std::uint64_t count_ = 0;
};

// Makes records of what is written, and keeps them until they have been sent.
class RecordWriter {
public:
    explicit RecordWriter(RecordKey const& key);

    // Takes bytes of the pieces as long as there is room; returns how many.
    std::size_t write(std::span<iovec const> pieces);
    // Whole records and the rest of one that was sent in part; stays where it is until `sent`.
    [[nodiscard]] std::span<std::uint8_t const> pending() const;
    void sent(std::size_t bytes);
    [[nodiscard]] std::uint64_t records() const { return cipher_.count(); }

private:
    static constexpr std::size_t kRecords = 8;  // which a core's cache holds

    RecordCipher cipher_;
    std::vector<std::uint8_t> memory_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

// Takes bytes as they come, however they are cut, and gives what is in whole records that are as they were made.
class RecordReader {
public:
    explicit RecordReader(RecordKey const& key);

    // Room for the next bytes that come, behind a `read` that gave nothing; so many have come.
    [[nodiscard]] std::span<std::uint8_t> room();
    void came(std::size_t bytes) { end_ += bytes; }
    // Fills the pieces from their beginning; returns how many bytes. 0: more has to come first.
    std::size_t read(std::span<iovec const> pieces);
    // `read` has something to give, or is broken, without anything coming.
    [[nodiscard]] bool holds() const;
    // The last record has only come in part.
    [[nodiscard]] bool in_midst() const { return begin_ != end_; }
    // What came was not made by the other end: nothing more will be read.
    [[nodiscard]] bool broken() const { return broken_; }

private:
    static constexpr std::size_t kRecords = 8;

    [[nodiscard]] std::optional<std::size_t> whole_record() const;
    std::size_t take_rest(PieceCursor& room);

    RecordCipher cipher_;
    std::vector<std::uint8_t> memory_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::vector<std::uint8_t> rest_;  // of a record that had no room where it was wanted
    std::size_t rest_begin_ = 0;
    std::size_t rest_end_ = 0;
    bool broken_ = false;
};

}  // namespace mgi::transport::wire
