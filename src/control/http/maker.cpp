#include "control/http/maker.hpp"

#include <exception>
#include <utility>

#include "core/log.hpp"

namespace mgi::control {

void HttpReply::give(HttpAnswer answer) {
    {
        std::lock_guard const lock(mutex_);
        answer_ = std::move(answer);
    }
    connection_->wake();
}

std::optional<HttpAnswer> HttpReply::take() {
    std::lock_guard const lock(mutex_);
    return std::exchange(answer_, std::nullopt);
}

AnswerMaker::AnswerMaker(std::function<std::string()> status, std::function<std::string()> metrics)
    : contents_{std::move(status), std::move(metrics)}, thread_([this] { run(); }) {}

AnswerMaker::~AnswerMaker() {
    {
        std::lock_guard const lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void AnswerMaker::make(What what, std::shared_ptr<HttpReply> reply) {
    {
        std::lock_guard const lock(mutex_);
        waiting_[std::size_t(what)].push_back(std::move(reply));
    }
    changed_.notify_one();
}

void AnswerMaker::give_later(std::shared_ptr<HttpReply> reply, HttpAnswer answer,
                             Clock::duration pause) {
    {
        std::lock_guard const lock(mutex_);
        delayed_.emplace(Clock::now() + pause, Delayed{std::move(reply), std::move(answer)});
    }
    changed_.notify_one();
}

void AnswerMaker::run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        bool const gave = give_due(lock);
        if (make_next(lock) || gave) continue;
        if (delayed_.empty()) {
            changed_.wait(lock);
        } else {
            changed_.wait_until(lock, delayed_.begin()->first);
        }
    }
}

bool AnswerMaker::give_due(std::unique_lock<std::mutex>& lock) {
    if (delayed_.empty() || delayed_.begin()->first > Clock::now()) return false;
    Delayed const due = std::move(delayed_.extract(delayed_.begin()).mapped());
    lock.unlock();
    due.reply->give(due.answer);
    lock.lock();
    return true;
}

bool AnswerMaker::make_next(std::unique_lock<std::mutex>& lock) {
    next_ = 1 - next_;
    std::size_t const what = waiting_[next_].empty() ? 1 - next_ : next_;
    Replies const replies = std::exchange(waiting_[what], {});
    if (replies.empty()) return false;
    lock.unlock();
    HttpAnswer const answer = made(What(what));
    for (auto const& reply : replies) reply->give(answer);
    lock.lock();
    return true;
}

HttpAnswer AnswerMaker::made(What what) const {
    try {
        HttpAnswer answer;
        answer.type =
            what == What::Status ? "application/json" : "text/plain; version=0.0.4; charset=utf-8";
        answer.body = std::make_shared<std::string const>(contents_[std::size_t(what)]());
        return answer;
    } catch (std::exception const& error) {
        log::error("status page: {}", error.what());
        return plain_answer(500, "the status cannot be shown; the log says why");
    }
}

}  // namespace mgi::control
