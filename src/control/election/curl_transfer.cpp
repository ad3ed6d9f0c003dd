#include "control/election/curl_transfer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <new>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

/// libcurl's own timers end a wait earlier.
constexpr int kLongestWaitMs = 1000;

curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace

CurlTransfer::CurlTransfer() {
    static CURLcode const begun = curl_global_init(CURL_GLOBAL_DEFAULT);
    check(begun, "start");
    multi_ = curl_multi_init();
    easy_ = curl_easy_init();
    try {
        if (multi_ == nullptr || easy_ == nullptr) throw std::bad_alloc();
        set(CURLOPT_ERRORBUFFER, problem_.data(), "explain errors");
        set(CURLOPT_OPENSOCKETFUNCTION, &open_socket, "take a socket");
        set(CURLOPT_NOSIGNAL, 1L, "do without signals");
        set(CURLOPT_PROXY, "", "do without a proxy");
#if LIBCURL_VERSION_NUM >= 0x075700
        // Else the end of a transfer waits for a name server.
        set(CURLOPT_QUICK_EXIT, 1L, "leave a name server");
#endif
    } catch (...) {
        free();
        throw;
    }
}

CurlTransfer::~CurlTransfer() {
    free();
}

void CurlTransfer::free() noexcept {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
}

void CurlTransfer::check(CURLcode code, char const* what) {
    if (code == CURLE_OK) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("{} cannot {}: {}", curl_version(), what, curl_easy_strerror(code)));
}

void CurlTransfer::set_pem(CURLoption option, std::string const& text, char const* what) {
    curl_blob blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
    set(option, &blob, what);
}

void CurlTransfer::set_list(CURLoption option, std::vector<std::string> const& lines,
                            char const* what) {
    List list;
    for (std::string const& line : lines) {
        curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        if (list == nullptr) list.reset(longer);  // else it is the same list
    }
    set(option, list.get(), what);
    lists_[option] = std::move(list);
}

std::optional<CURLcode> CurlTransfer::perform(std::stop_token const& stop) {
    problem_[0] = '\0';
    CURLMcode state = curl_multi_add_handle(multi_, easy_);
    {
        std::stop_callback const wakes(stop, [this] { curl_multi_wakeup(multi_); });
        int running = 1;
        while (state == CURLM_OK && running > 0 && !stop.stop_requested()) {
            state = curl_multi_perform(multi_, &running);
            if (state == CURLM_OK && running > 0) {
                state = curl_multi_poll(multi_, nullptr, 0, kLongestWaitMs, nullptr);
            }
        }
    }
    int left = 0;
    CURLMsg const* const end = curl_multi_info_read(multi_, &left);
    std::optional<CURLcode> result;
    if (end != nullptr) {
        result = end->data.result;
    } else if (state != CURLM_OK) {
        result = CURLE_FAILED_INIT;
    }
    curl_multi_remove_handle(multi_, easy_);
    return result;
}

std::string CurlTransfer::problem(CURLcode code) const {
    return problem_[0] != '\0' ? problem_.data() : curl_easy_strerror(code);
}

}  // namespace mgi::control
