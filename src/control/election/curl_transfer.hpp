/// \file
/// A transfer of libcurl's that another thread may stop, and the connection it keeps for the next.
#pragma once

#include <curl/curl.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace mgi::control {

/// Used by one thread at a time. Sockets are closed on exec.
class CurlTransfer {
public:
    /// Error(InvalidArgument) says what this libcurl cannot do; likewise from `set`.
    CurlTransfer();
    ~CurlTransfer();
    CurlTransfer(CurlTransfer const&) = delete;
    CurlTransfer& operator=(CurlTransfer const&) = delete;

    /// `what` it is for, after "libcurl cannot".
    template <class Value>
    void set(CURLoption option, Value value, char const* what) {
        check(curl_easy_setopt(easy_, option, value), what);
    }
    /// The text must outlive the transfers.
    void set_pem(CURLoption option, std::string const& text, char const* what);

    void set_list(CURLoption option, std::vector<std::string> const& lines, char const* what);

    /// Until the transfer has ended, or nothing as soon as a stop is requested.
    [[nodiscard]] std::optional<CURLcode> perform(std::stop_token const& stop);

    /// What went wrong with the last one.
    [[nodiscard]] std::string problem(CURLcode code) const;

private:
    struct FreeList {
        void operator()(curl_slist* list) const { curl_slist_free_all(list); }
    };
    using List = std::unique_ptr<curl_slist, FreeList>;

    static void check(CURLcode code, char const* what);
    void free() noexcept;

    CURLM* multi_ = nullptr;  ///< can be woken, which a lone easy handle cannot
    CURL* easy_ = nullptr;
    std::array<char, CURL_ERROR_SIZE> problem_{};
    std::map<CURLoption, List> lists_;  ///< as long as they are set
};

}  // namespace mgi::control
