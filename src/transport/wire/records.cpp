#include "transport/wire/records.hpp"

#include <algorithm>
#include <cstring>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

#include "transport/wire/libcrypto.hpp"

namespace mgi::transport::wire {
namespace {

constexpr std::size_t kTag = 16;
constexpr std::uint8_t kApplicationData = 23;
constexpr std::array<std::uint8_t, 3> kBegins{kApplicationData, 3, 3};  // as TLS 1.2, says RFC 8446

void require(bool went_well) {
    if (!went_well) {
        throw Error(ErrorCode::Internal, "libcrypto has no AES-256-GCM; is it allowed to here?");
    }
}

// Of the whole record with this header; nothing where a wire has no such record: all have content, and no padding.
std::size_t length_of(std::uint8_t const* header) {
    std::size_t const length = kRecordHeader + (std::size_t{header[3]} << 8 | header[4]);
    bool const good = std::equal(kBegins.begin(), kBegins.end(), header) &&
                      length > kRecordOverhead && length <= kMostRecord;
    return good ? length : 0;
}

}  // namespace

RecordKey::~RecordKey() {
    wipe(key);
    wipe(nonce);
}

PieceCursor::PieceCursor(std::span<iovec const> pieces) : pieces_(pieces) {
    for (iovec const& piece : pieces) left_ += piece.iov_len;
}

std::span<std::uint8_t> PieceCursor::next(std::size_t most) {
    while (at_ == pieces_.front().iov_len) {
        pieces_ = pieces_.subspan(1);
        at_ = 0;
    }
    iovec const& piece = pieces_.front();
    std::size_t const bytes = std::min(most, piece.iov_len - at_);
    auto* const data = static_cast<std::uint8_t*>(piece.iov_base) + at_;
    at_ += bytes;
    left_ -= bytes;
    return {data, bytes};
}

RecordCipher::RecordCipher(RecordKey const& key, bool encrypts)
    : cipher_(Libcrypto::get().cipher_new(), Libcrypto::get().cipher_free), nonce_(key.nonce) {
    Libcrypto const& library = Libcrypto::get();
    require(cipher_ && library.cipher_init(cipher_.get(), library.aes_256_gcm(), nullptr,
                                           key.key.data(), nullptr, encrypts ? 1 : 0) == 1);
}

// The next record, of which the header is signed.
void RecordCipher::begin(std::uint8_t const* header) {
    auto nonce = nonce_;
    for (std::size_t i = 0; i < 8; ++i) {
        nonce[nonce.size() - 1 - i] ^= std::uint8_t(count_ >> (8 * i));
    }
    ++count_;
    require(Libcrypto::get().cipher_init(cipher_.get(), nullptr, nullptr, nullptr, nonce.data(),
                                         -1) == 1);
    update(nullptr, header, kRecordHeader);
}

void RecordCipher::update(std::uint8_t* out, std::uint8_t const* in, std::size_t bytes) {
    int done = 0;
    require(Libcrypto::get().cipher_update(cipher_.get(), out, &done, in, int(bytes)) == 1 &&
            std::size_t(done) == bytes);
}

std::size_t RecordCipher::seal(PieceCursor& plain, std::uint8_t* out) {
    Libcrypto const& library = Libcrypto::get();
    std::size_t bytes = std::min(plain.left(), kMostPlain);
    std::size_t const behind = bytes + 1 + kTag;
    std::uint8_t* at = std::copy(kBegins.begin(), kBegins.end(), out);
    *at++ = std::uint8_t(behind >> 8);
    *at++ = std::uint8_t(behind);
    begin(out);
    while (bytes != 0) {
        auto const piece = plain.next(bytes);
        update(at, piece.data(), piece.size());
        at += piece.size();
        bytes -= piece.size();
    }
    update(at++, &kApplicationData, 1);
    int none = 0;
    require(library.cipher_final(cipher_.get(), at, &none) == 1 &&
            library.cipher_control(cipher_.get(), Libcrypto::kGetTag, int(kTag), at) == 1);
    return kRecordHeader + behind;
}

bool RecordCipher::open(std::span<std::uint8_t const> record, PieceCursor& room) {
    Libcrypto const& library = Libcrypto::get();
    MGI_ASSERT(record.size() > kRecordOverhead, record.size());
    std::size_t bytes = record.size() - kRecordOverhead;
    MGI_ASSERT(bytes <= room.left(), bytes, room.left());
    begin(record.data());
    std::uint8_t const* at = record.data() + kRecordHeader;
    while (bytes != 0) {
        auto const piece = room.next(bytes);
        update(piece.data(), at, piece.size());
        at += piece.size();
        bytes -= piece.size();
    }
    std::uint8_t kind = 0;
    update(&kind, at++, 1);
    std::array<std::uint8_t, kTag> tag{};
    std::copy_n(at, kTag, tag.begin());
    int none = 0;
    return library.cipher_control(cipher_.get(), Libcrypto::kSetTag, int(kTag), tag.data()) == 1 &&
           library.cipher_final(cipher_.get(), &kind, &none) == 1 && kind == kApplicationData;
}

RecordWriter::RecordWriter(RecordKey const& key)
    : cipher_(key, true), memory_(kRecords * kMostRecord) {}

std::size_t RecordWriter::write(std::span<iovec const> pieces) {
    if (begin_ == end_) begin_ = end_ = 0;
    PieceCursor plain(pieces);
    std::size_t const all = plain.left();
    while (plain.left() != 0 && memory_.size() - end_ >= kMostRecord) {
        end_ += cipher_.seal(plain, memory_.data() + end_);
    }
    return all - plain.left();
}

std::span<std::uint8_t const> RecordWriter::pending() const {
    return {memory_.data() + begin_, end_ - begin_};
}

void RecordWriter::sent(std::size_t bytes) {
    begin_ += bytes;
}

RecordReader::RecordReader(RecordKey const& key)
    : cipher_(key, false), memory_(kRecords * kMostRecord), rest_(kMostPlain) {}

std::span<std::uint8_t> RecordReader::room() {
    std::memmove(memory_.data(), memory_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    return std::span(memory_).subspan(end_);
}

// The length of the next record, if it is all here; nothing, if not. Of what is no record, 0.
std::optional<std::size_t> RecordReader::whole_record() const {
    std::size_t const here = end_ - begin_;
    if (here < kRecordHeader) return std::nullopt;
    std::size_t const length = length_of(memory_.data() + begin_);
    return here < length ? std::nullopt : std::optional(length);
}

bool RecordReader::holds() const {
    return rest_begin_ != rest_end_ || broken_ || whole_record().has_value();
}

std::size_t RecordReader::take_rest(PieceCursor& room) {
    std::size_t const all = std::min(rest_end_ - rest_begin_, room.left());
    for (std::size_t left = all; left != 0;) {
        auto const piece = room.next(left);
        std::memcpy(piece.data(), rest_.data() + rest_begin_, piece.size());
        rest_begin_ += piece.size();
        left -= piece.size();
    }
    return all;
}

std::size_t RecordReader::read(std::span<iovec const> pieces) {
    PieceCursor room(pieces);
    std::size_t got = take_rest(room);
    while (!broken_ && room.left() != 0) {
        auto const length = whole_record();
        if (!length) break;
        if (*length == 0) {
            broken_ = true;
            break;
        }
        std::span<std::uint8_t const> const record(memory_.data() + begin_, *length);
        std::size_t const bytes = *length - kRecordOverhead;
        begin_ += *length;
        if (bytes <= room.left()) {
            broken_ = !cipher_.open(record, room);
            if (!broken_) got += bytes;
            continue;
        }
        iovec const whole{rest_.data(), bytes};
        PieceCursor rest({&whole, 1});
        broken_ = !cipher_.open(record, rest);
        rest_begin_ = 0;
        rest_end_ = broken_ ? 0 : bytes;
        got += take_rest(room);
    }
    return got;
}

}  // namespace mgi::transport::wire
