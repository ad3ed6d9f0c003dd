#include "control/controller/session.hpp"

#include <string>
#include <utility>

#include "control/rpc/handover.hpp"
#include "core/log.hpp"

namespace mgi::control {
namespace {

/// An agent that reads nothing is cut off here: a plan of the largest channel must fit, twice.
constexpr std::size_t kMostBytes = std::size_t{128} << 20;
constexpr std::size_t kMostMessages = 65'536;

std::size_t size_of(Send const& send) {
    return send.message->ByteSizeLong() + send.table.size();
}

}  // namespace

Session::Session(SessionId id, grpc::CallbackServerContext* context, std::shared_ptr<Engine> engine,
                 std::function<void(SessionId)> over)
    : id_(id), context_(context), engine_(std::move(engine)), over_(std::move(over)) {}

void Session::start() {
    self_ = shared_from_this();
    engine_->apply([this](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_opened(id_, now, effects);
    });
    hand_over(this);
    StartRead(&read_);
}

void Session::OnReadDone(bool ok) {
    take_over(this);
    if (!ok) {
        tell_closed();
        close();
        return;
    }
    engine_->apply([this](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_message(id_, read_, now, effects);
    });
    hand_over(this);
    StartRead(&read_);
}

void Session::send(Send message) {
    {
        std::lock_guard const lock(mutex_);
        if (closing_) return;
        queued_bytes_ += size_of(message);
        queue_.push_back(std::move(message));
        bool const stuck = queue_.size() > kMostMessages || queued_bytes_ > kMostBytes;
        if (stuck) {
            log::warn("controller: session {} does not read: {} messages wait; it is closed", id_,
                      queue_.size());
            closing_ = true;
            queue_.clear();
        }
        if (writing_ != nullptr) {
            if (stuck) context_->TryCancel();
            return;
        }
    }
    write_next();
}

void Session::close() {
    {
        std::lock_guard const lock(mutex_);
        if (closing_) return;
        closing_ = true;
        if (writing_ != nullptr) return;
    }
    write_next();
}

// No lock is held in a call of gRPC: it may call back at once, in this very thread.
void Session::write_next() {
    ControllerMessage const* next = nullptr;
    std::string table;
    {
        std::lock_guard const lock(mutex_);
        if (writing_ != nullptr || finished_) return;
        if (!queue_.empty()) {
            Send first = std::move(queue_.front());
            queue_.pop_front();
            queued_bytes_ -= size_of(first);
            writing_ = std::move(first.message);
            table = std::move(first.table);
            next = writing_.get();
        } else if (closing_) {
            finished_ = true;
        } else {
            return;
        }
    }
    if (next != nullptr && next->has_prepare_plan()) {
        whole_ = whole({id_, writing_, std::move(table)});
        next = &whole_;
    }
    hand_over(this);
    if (next != nullptr) {
        StartWrite(next);
    } else {
        Finish(grpc::Status::OK);
    }
}

void Session::OnWriteDone(bool ok) {
    take_over(this);
    {
        std::lock_guard const lock(mutex_);
        writing_.reset();
        whole_ = ControllerMessage();  // its memory, too
        if (!ok) {
            closing_ = true;
            queue_.clear();
        }
    }
    write_next();
}

void Session::OnCancel() {
    take_over(this);
    tell_closed();
    {
        std::lock_guard const lock(mutex_);
        queue_.clear();
    }
    close();
}

void Session::tell_closed() {
    engine_->apply([this](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_closed(id_, now, effects);
    });
}

void Session::OnDone() {
    take_over(this);
    tell_closed();
    over_(id_);
    self_.reset();
}

}  // namespace mgi::control
