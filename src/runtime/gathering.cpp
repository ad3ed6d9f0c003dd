// What processes that run operators together say to each other.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/log.hpp"
#include "runtime/gpu_handover.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// How often a gather that waits looks whether it is to stop.
constexpr std::chrono::milliseconds kStopLook{50};
// How long processes that have just heard of each other wait for each other's part of a board. Shorter than a process that has
// failed waits for those that are to hear of it.
constexpr std::chrono::milliseconds kFounding{300};

// Interrupts the calls of a coordinator once it is asked to.
class Watch {
public:
    Watch(Coordinator& coordinator, std::function<bool()> const& stop)
        : thread_([this, &coordinator, &stop](std::stop_token const& over) {
              std::unique_lock lock(mutex_);
              while (!over.stop_requested()) {
                  // Again and again: the call may not have begun to wait.
                  if (stop()) coordinator.interrupt();
                  changed_.wait_for(lock, over, kStopLook, [] { return false; });
              }
          }) {}

private:
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::jthread thread_;
};

// "DOOR HOME": where memory is handed to a process, and where it is.
std::string_view home_in(std::string_view words) {
    return words.substr(std::min(words.find(' '), words.size()));
}

}  // namespace

std::vector<std::string> Runtime::Impl::gather_often(
    Company const& company, std::string const& what, std::string const& data,
    std::chrono::milliseconds timeout, std::function<bool()> const& stop, bool failed) {
    if (auto const board = board_of(company)) {
        if (auto all = board->gather(what, data, stop)) return std::move(*all);
    }
    Watch const watch(*coordinator_, stop);
    std::vector<std::string> all = gather(company, what, data, timeout, failed);
    // Now they are all here, unless one has failed.
    bool const here =
        std::none_of(all.begin(), all.end(), [](auto const& one) { return one.empty(); });
    if (here && !board_of(company)) found_board(company, what);
    return all;
}

std::shared_ptr<GatherBoard> Runtime::Impl::board_of(Company const& company) {
    std::lock_guard const lock(registry_->mutex);
    auto const at = boards_.find(company.ranks);
    if (at == boards_.end() || !at->second.board || at->second.board->is_over()) return nullptr;
    return at->second.board;
}

// All processes found one at the same time: each has come from the same gather, `after`. Where one of them fails alone, the
// others' board is soon over.
void Runtime::Impl::found_board(Company const& company, std::string const& after) noexcept {
    try {
        {
            std::lock_guard const lock(registry_->mutex);
            if (boards_[company.ranks].never || !company.on_one_server()) return;
        }
        Board board = make_board(company, "board behind " + after);
        std::lock_guard const lock(registry_->mutex);
        boards_[company.ranks] = std::move(board);
    } catch (std::exception const& error) {
        log::debug("no board for processes of a server: {}", error.what());
    }
}

Runtime::Impl::Board Runtime::Impl::make_board(Company const& company, std::string const& what) {
    std::optional<GpuDoor> door;
    std::string mine;
    try {
        std::string const home = home_on(coordinator_->server());
        if (!home.empty()) mine = door.emplace().name() + ' ' + home;
    } catch (Error const& error) {
        log::debug("{}: {}", what, error.what());
    }
    auto const doors = gather(company, what, mine, kFounding);
    Board board;
    board.never = std::any_of(doors.begin(), doors.end(), [&](std::string const& one) {
        return one.empty() || home_in(one) != home_in(doors[0]);
    });
    if (board.never) return board;

    // The first process makes the memory and leaves it at the others' doors; then all map it.
    transport::wire::Descriptor memory;
    std::string failure;
    auto const attempt = [&failure](auto const& part) {
        try {
            if (failure.empty()) part();
        } catch (Error const& error) {
            failure = error.what();
        }
    };
    attempt([&] {
        if (company.me != 0) return;
        memory = GatherBoard::make(doors.size());
        for (std::size_t p = 1; p < doors.size(); ++p) {
            // It stands at the door, also when this end is closed.
            (void)hand_over(doors[p].substr(0, doors[p].find(' ')), 0, {memory.get()});
        }
    });
    (void)gather(company, what + " is made", "", kFounding);
    attempt([&] {
        if (company.me != 0) {
            auto came = door->all_that_came();
            if (came[0].memories.empty()) throw Error(ErrorCode::Refused, "no memory came");
            memory = std::move(came[0].memories.front());
        }
        board.board = std::make_shared<GatherBoard>(memory.get(), doors.size(), company.me);
    });
    for (std::string const& other : gather(company, what + " is mapped", failure, kFounding)) {
        if (other.empty()) continue;
        log::info("processes of a server gather by the coordinator alone: {}", other);
        board.never = true;
    }
    if (board.never) board.board.reset();
    return board;
}

}  // namespace mgi
