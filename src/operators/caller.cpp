#include "operators/caller.hpp"

namespace mgi::operators {

namespace {

using std::chrono::milliseconds;

// How long a cancelled operator may take to notice.
constexpr milliseconds kLook{20};

}  // namespace

Error Caller::interrupted() const {
    return {ErrorCode::Interrupted, what_ + ": stopped at the caller's request"};
}

void Caller::wait_for(Launch& launch, std::function<bool()> const& failed,
                      std::function<void(std::exception_ptr)> const& record) const {
    for (;;) {
        // Asked first: a launch that ends just as the wait times out has not failed.
        bool const ended = launch.done();
        try {
            launch.wait(cancel_ != nullptr && !failed() ? kLook : milliseconds::max());
            return;
        } catch (Error const& error) {
            if (error.code() != ErrorCode::Timeout || ended) {
                record(std::current_exception());
                if (launch.done()) return;
            }
        } catch (...) {
            record(std::current_exception());
            if (launch.done()) return;
        }
        if (cancelled() && !failed()) record(std::make_exception_ptr(interrupted()));
    }
}

}  // namespace mgi::operators
