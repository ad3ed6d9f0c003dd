#include "transport/ucx/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include <mgi/error.hpp>

#include "transport/wire/crypto.hpp"

namespace mgi::transport::ucx {
namespace {

constexpr std::size_t kMostSending = 256;    // messages
constexpr std::size_t kMostWaiting = 65536;  // of one stream that were not read: more are an attack
constexpr std::size_t kMostCopied = 4096;    // small pieces of one message
constexpr std::chrono::milliseconds kLeave{50};  // for memory that is not the stream's
constexpr std::chrono::milliseconds kConnect{100};
constexpr std::chrono::seconds kClose{1};

static_assert(sizeof(iovec) == sizeof(ucp_dt_iov_t) &&
              offsetof(iovec, iov_base) == offsetof(ucp_dt_iov_t, buffer) &&
              offsetof(iovec, iov_len) == offsetof(ucp_dt_iov_t, length));

}  // namespace

UcxStream::UcxStream(Nic& nic) : nic_(nic), ucx_(nic.ucx()) {
    wire::fill_random({reinterpret_cast<std::uint8_t*>(&token_), sizeof(token_)});
    nic_.enter(token_, *this);
}

UcxStream::~UcxStream() {
    nic_.leave(token_);  // what comes from now on is dropped
    bool const lands_in_gpus = this->lands_in_gpus();
    if (endpoint_ != nullptr) close();
    // A write of the other end's may still be on its way to where something lands, or a read to what is sent; to
    // memory that stays registered even where UCX says that its operation has ended.
    if (lands_in_gpus || !leaves_memory()) renew();
    for (auto& [sequence, message] : messages_) {
        release(message);
        if (message.fetching != nullptr) nic_.end(*message.fetching);
    }
    for (Operation* const operation : landing_) nic_.end(*operation);
    nic_.disown(*this);
}

void UcxStream::close() {
    // UCX 1.13 aborts the process where an endpoint is closed while it is still being connected. One that it
    // has given up itself it will not connect any more.
    ucp_request_param_t param{};
    if (!failed_) (void)ends_within(kConnect, ucx_.ucp_ep_flush_nbx(endpoint_, &param));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (!ends_within(kClose, ucx_.ucp_ep_close_nbx(endpoint_, &param))) renew();
}

bool UcxStream::ends_within(Clock::duration limit, ucs_status_ptr_t request) {
    if (!UCS_PTR_IS_PTR(request)) return true;
    Clock::time_point const end = Clock::now() + limit;
    auto const runs = [&] { return ucx_.ucp_request_check_status(request) == UCS_INPROGRESS; };
    while (runs() && Clock::now() < end) nic_.progress();
    bool const ended = !runs();
    ucx_.ucp_request_free(request);  // one that still runs UCX keeps until it ends
    return ended;
}

void UcxStream::renew() {
    nic_.enter(token_, *this);
    nic_.renew();
    nic_.leave(token_);
}

bool UcxStream::lands() const {
    auto const lands = [](Operation const* operation) { return !operation->done; };
    if (std::any_of(landing_.begin(), landing_.end(), lands)) return true;
    auto const at = messages_.find(next_read_);
    return at != messages_.end() && at->second.fetching != nullptr && lands(at->second.fetching);
}

bool UcxStream::lands_in_gpus() const {
    return std::any_of(landing_.begin(), landing_.end(), [this](Operation const* operation) {
        return !operation->done && !operation->pieces.empty() &&
               nic_.gpus().has(operation->pieces.front().iov_base);
    });
}

void UcxStream::abandon() {
    break_off("UCX's worker was made anew");
    endpoint_ = nullptr;
    // They end with the worker.
    landing_.clear();
    messages_.clear();
    landing_bytes_ = 0;
    sending_ = sending_large_ = 0;
}

void UcxStream::break_off(std::string why) {
    if (broken_.empty()) broken_ = std::move(why);
}

std::string UcxStream::card() const {
    return std::string(reinterpret_cast<char const*>(&token_), sizeof(token_)) + nic_.address();
}

void UcxStream::join(std::string_view far_card) {
    if (!broken_.empty()) throw Error(ErrorCode::Refused, broken_);
    if (far_card.size() <= sizeof(far_token_)) {
        throw Error(ErrorCode::Refused, "the other end's card for UCX is too short");
    }
    std::memcpy(&far_token_, far_card.data(), sizeof(far_token_));
    std::string const address(far_card.substr(sizeof(far_token_)));
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<ucp_address_t const*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &UcxStream::failed;
    params.err_handler.arg = this;
    ucx_.check(ucx_.ucp_ep_create(nic_.worker(), &params, &endpoint_),
               "UCX finds no way to the other end");
}

void UcxStream::failed(void* self, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
    auto& stream = *static_cast<UcxStream*>(self);
    stream.failed_ = true;
    stream.break_off(std::string("UCX says: ") + stream.ucx_.ucs_status_string(status));
}

bool UcxStream::writable() const {
    return broken_.empty() && endpoint_ != nullptr && sending_ < kMostSending;
}

std::size_t UcxStream::write(std::span<iovec const> pieces) {
    std::size_t taken = 0;
    std::string copy;
    auto const send_copy = [&] {
        if (!copy.empty()) send(nullptr, 0, std::exchange(copy, {}));
    };
    try {
        for (iovec const& piece : pieces) {
            if (!writable()) break;
            bool const of_gpu = nic_.gpus().has(piece.iov_base);
            if (piece.iov_len <= kCopied && !of_gpu) {
                if (copy.size() + piece.iov_len > kMostCopied) send_copy();
                copy.append(static_cast<char const*>(piece.iov_base), piece.iov_len);
            } else {
                send_copy();
                send(piece.iov_base, piece.iov_len, {});
            }
            taken += piece.iov_len;
        }
        send_copy();
    } catch (std::bad_alloc const&) {
        break_off("no memory");  // nobody knows what was sent
    }
    return taken;
}

void UcxStream::send(void const* data, std::size_t bytes, std::string copy) {
    bool const small = data == nullptr;
    Operation& it = nic_.begin(*this);
    it.header = {far_token_, next_sent_++};
    it.copy = std::move(copy);
    it.bytes = small ? 0 : bytes;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    if (small) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER;
    }
    if (nic_.gpus().has(data)) {
        // Whatever its size it waits at this end until the other one says where it lands.
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_RNDV;
        nic_.gpus().describe(data, param);
    }
    param.cb.send = &UcxStream::sent;
    param.user_data = &it;
    ++sending_;
    if (!small) ++sending_large_;
    GpuMemories::Turn const turn(nic_.gpus());
    ucs_status_ptr_t const request =
        ucx_.ucp_am_send_nbx(endpoint_, 0, &it.header, sizeof(it.header),
                             small ? it.copy.data() : data, small ? it.copy.size() : bytes, &param);
    if (!UCS_PTR_IS_PTR(request)) end(it, UCS_PTR_STATUS(request));
}

void UcxStream::sent(void* request, ucs_status_t status, void* operation) noexcept {
    Operation& it = *static_cast<Operation*>(operation);
    Library::get().ucp_request_free(request);
    if (it.stream != nullptr) {
        it.stream->end(it, status);
    } else {
        it.nic->end(it);
    }
}

// Of a send.
void UcxStream::end(Operation& operation, ucs_status_t status) {
    --sending_;
    if (operation.bytes != 0) --sending_large_;
    if (status != UCS_OK) {
        break_off(std::string("UCX could not send: ") + ucx_.ucs_status_string(status));
    }
    nic_.end(operation);
}

bool UcxStream::finish() {
    return broken_.empty() && leaves_memory() && broken_.empty();
}

// False: not in time.
bool UcxStream::leaves_memory() {
    auto const in_use = [this] { return lands() || sending_large_ != 0; };
    Clock::time_point const end = Clock::now() + kLeave;
    while (in_use() && Clock::now() < end) nic_.progress();
    return !in_use();
}

ucs_status_t UcxStream::take(std::uint64_t sequence, void* data, std::size_t bytes,
                             std::uint64_t attributes) {
    bool const known = sequence < next_read_ || messages_.contains(sequence);
    if (known || sequence - next_read_ >= kMostWaiting) {
        break_off("a message of UCX's came that nobody sent");
        return UCS_OK;
    }
    Message message;
    message.bytes = bytes;
    message.to_fetch = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    bool const keep = message.to_fetch || (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
    if (keep) {
        message.data = data;
    } else {
        message.copy.assign(static_cast<char const*>(data), bytes);
    }
    messages_.emplace(sequence, std::move(message));
    return keep ? UCS_INPROGRESS : UCS_OK;
}

void UcxStream::release(Message& message) {
    if (void* const data = std::exchange(message.data, nullptr)) {
        ucx_.ucp_am_data_release(nic_.worker(), data);
    }
}

bool UcxStream::readable() const {
    if (!landing_.empty() && landing_.front()->done) return true;
    auto const at = messages_.find(next_read_);
    if (at == messages_.end()) return false;
    Message const& message = at->second;
    if (message.fetching != nullptr) return message.fetching->done;
    return message.to_fetch ? !waits_ : landing_.empty();
}

std::size_t UcxStream::read(std::span<iovec const> room) {
    try {
        return broken_.empty() ? take_in(room) : 0;
    } catch (std::bad_alloc const&) {
        break_off("no memory");
        return 0;
    }
}

std::size_t UcxStream::take_in(std::span<iovec const> room) {
    if (std::size_t const bytes = take_landed()) return bytes;
    std::size_t space = 0;
    for (iovec const& piece : room) space += piece.iov_len;
    while (broken_.empty()) {
        auto const at = messages_.find(next_read_);
        if (at == messages_.end()) break;
        Message& message = at->second;
        if (message.fetching != nullptr) {
            if (!message.fetching->done) return 0;
            nic_.end(*std::exchange(message.fetching, nullptr));
            message.to_fetch = false;
        }
        if (!message.to_fetch) return landing_.empty() ? copy_out(message, room) : 0;
        if (message.bytes > space - std::min(space, landing_bytes_)) {
            waits_ = !landing_.empty();
            if (!waits_) fetch(message);
            break;
        }
        land(message, room);
        messages_.erase(at);
        ++next_read_;
    }
    return take_landed();  // what did so at once
}

std::size_t UcxStream::take_landed() {
    std::size_t bytes = 0;
    while (broken_.empty() && !landing_.empty() && landing_.front()->done) {
        bytes += landing_.front()->bytes;
        nic_.end(*landing_.front());
        landing_.pop_front();
    }
    if (bytes != 0) waits_ = false;
    landing_bytes_ -= bytes;
    return bytes;
}

std::size_t UcxStream::copy_out(Message& message, std::span<iovec const> room) {
    char const* const from =
        message.data != nullptr ? static_cast<char const*>(message.data) : message.copy.data();
    std::size_t const before = offset_;
    for (iovec const& piece : room) {
        std::size_t const here = std::min(message.bytes - offset_, piece.iov_len);
        if (here == 0) break;
        if (nic_.gpus().has(piece.iov_base)) {
            break_off("bytes came by the host that are for a GPU's memory");
            return 0;
        }
        std::memcpy(piece.iov_base, from + offset_, here);
        offset_ += here;
    }
    std::size_t const bytes = offset_ - before;
    if (offset_ == message.bytes) {
        release(message);
        messages_.erase(next_read_++);
        offset_ = 0;
    }
    return bytes;
}

// Into the room behind what is landing already.
void UcxStream::land(Message& message, std::span<iovec const> room) {
    Operation& it = nic_.begin(*this);
    it.bytes = message.bytes;
    std::size_t skip = landing_bytes_;
    std::size_t left = message.bytes;
    for (iovec const& piece : room) {
        std::size_t const past = std::min(skip, piece.iov_len);
        skip -= past;
        std::size_t const here = std::min(left, piece.iov_len - past);
        if (here == 0) continue;
        it.pieces.push_back({static_cast<char*>(piece.iov_base) + past, here});
        left -= here;
    }
    if (!nic_.gpus().are_alike(it.pieces)) {
        nic_.end(it);
        release(message);
        return break_off("bytes came for several memories at once");
    }
    landing_.push_back(&it);
    landing_bytes_ += it.bytes;
    begin_landing(it, std::exchange(message.data, nullptr));
}

// There is no room for it in one go.
void UcxStream::fetch(Message& message) {
    message.copy.resize(message.bytes);
    Operation& it = nic_.begin(*this);
    it.bytes = message.bytes;
    it.pieces.push_back({message.copy.data(), message.bytes});
    message.fetching = &it;
    begin_landing(it, std::exchange(message.data, nullptr));
}

void UcxStream::begin_landing(Operation& it, void* data) {
    bool const one = it.pieces.size() == 1;
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
    param.cb.recv_am = &UcxStream::landed;
    param.user_data = &it;
    if (one) nic_.gpus().describe(it.pieces[0].iov_base, param);
    GpuMemories::Turn const turn(nic_.gpus());
    param.datatype = one ? ucp_datatype_t(ucp_dt_make_contig(1)) : ucp_datatype_t(UCP_DATATYPE_IOV);
    ucs_status_ptr_t const request = ucx_.ucp_am_recv_data_nbx(
        nic_.worker(), data, one ? it.pieces[0].iov_base : static_cast<void*>(it.pieces.data()),
        one ? it.bytes : it.pieces.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) has_landed(it, UCS_PTR_STATUS(request));
}

void UcxStream::landed(void* request, ucs_status_t status, std::size_t /*bytes*/,
                       void* operation) noexcept {
    Library::get().ucp_request_free(request);
    Operation& it = *static_cast<Operation*>(operation);
    it.stream->has_landed(it, status);  // which does not go while something lands
}

void UcxStream::has_landed(Operation& operation, ucs_status_t status) {
    operation.done = true;
    if (status == UCS_OK) return;
    break_off(std::string("UCX could not receive: ") + ucx_.ucs_status_string(status));
}

}  // namespace mgi::transport::ucx
