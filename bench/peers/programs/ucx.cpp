// mgi-peer-ucx: the exchange through UCX's tagged messages, a segment at a time.

#include <ucp/api/ucp.h>

#include <algorithm>

#include "peers/messages.hpp"

namespace mgi::peers {
namespace {

void check(ucs_status_t status, char const* what) {
    if (status == UCS_OK) return;
    throw Error(ErrorCode::Internal, std::string(what) + ": " + ucs_status_string(status));
}

class UcxMessages : public Messages {
public:
    UcxMessages(Options const& options, Driver& driver)
        : Messages(options), sends_(count()), receives_(count()) {
        ucp_config_t* config = nullptr;
        check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        ucp_params_t wanted{};
        wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
        wanted.features = UCP_FEATURE_TAG;
        ucs_status_t const made = ucp_init(&wanted, config, &context_);
        ucp_config_release(config);
        check(made, "ucp_init");
        ucp_worker_params_t how{};
        how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        how.thread_mode = UCS_THREAD_MODE_SINGLE;
        check(ucp_worker_create(context_, &how, &worker_), "ucp_worker_create");
        ucp_address_t* address = nullptr;
        std::size_t size = 0;
        check(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
        std::string const mine(reinterpret_cast<char const*>(address), size);
        ucp_worker_release_address(worker_, address);
        for (std::string const& other : driver.gather(mine)) {
            ucp_ep_params_t to{};
            to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
            to.address = reinterpret_cast<ucp_address_t const*>(other.data());
            check(ucp_ep_create(worker_, &to, &endpoints_.emplace_back()), "ucp_ep_create");
        }
    }

    // The program ends with it, and all others at once: no connection is closed in good order.
    ~UcxMessages() override = default;

private:
    static constexpr std::uint64_t kMeeting = std::uint64_t{1} << 40;
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};

    /// In rounds, each with the one twice as far away.
    void meet() override {
        std::uint32_t const size = options().processes;
        for (std::uint32_t step = 1; step < size; step *= 2) {
            std::uint32_t const from = (options().rank + size - step) % size;
            char said = 0;
            char heard = 0;
            ucp_request_param_t none{};
            void* in = ucp_tag_recv_nbx(worker_, &heard, 1, tag_of(from) | kMeeting | step << 20,
                                        kAll, &none);
            void* out = ucp_tag_send_nbx(endpoints_[(options().rank + step) % size], &said, 1,
                                         tag_of(options().rank) | kMeeting | step << 20, &none);
            for (std::uint32_t idle = 0; !is_over(in) || !is_over(out);) {
                device::backoff(std::min(++idle, 63u));
            }
        }
    }
    void start_send(Message const& message) override {
        ucp_request_param_t none{};
        sends_[message.number] = ucp_tag_send_nbx(endpoints_[message.peer], message.data,
                                                  message.bytes, tag_of(options().rank), &none);
    }
    bool sent(std::uint32_t number) override { return is_over(sends_[number]); }
    void start_receive(Message const& message) override {
        ucp_request_param_t none{};
        receives_[message.number] = ucp_tag_recv_nbx(worker_, message.data, message.bytes,
                                                     tag_of(message.peer), kAll, &none);
    }
    bool received(std::uint32_t number) override { return is_over(receives_[number]); }

    static std::uint64_t tag_of(std::uint32_t rank) { return rank; }

    /// Null is a request that was over at once, or was never made.
    bool is_over(void*& request) {
        if (request == nullptr) return true;
        if (!UCS_PTR_IS_ERR(request)) {
            ucp_worker_progress(worker_);
            ucs_status_t const status = ucp_request_check_status(request);
            if (status == UCS_INPROGRESS) return false;
            ucp_request_free(request);
            request = nullptr;
            check(status, "a message of UCX");
            return true;
        }
        check(UCS_PTR_STATUS(request), "a message of UCX");
        return true;
    }

    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    std::vector<ucp_ep_h> endpoints_;
    std::vector<void*> sends_;
    std::vector<void*> receives_;
};

std::unique_ptr<Member> make(Options const& options, OwnRows const& rows, Driver& driver) {
    return std::make_unique<PipelinedMember>(options, only(options, rows),
                                             std::make_unique<UcxMessages>(options, driver));
}

}  // namespace
}  // namespace mgi::peers

int main(int count, char** words) {
    return mgi::peers::run_member({words + 1, words + count}, mgi::peers::make);
}
