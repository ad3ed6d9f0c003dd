#include "hostile/scheduler.hpp"

#include <algorithm>
#include <cstdio>

namespace mgi::hostile {

namespace {

// A turn's most steps where the fiber is to run until it waits.
constexpr std::uint64_t kLongTurn = 20'000;
// Steps without progress that are a hang. A starved fiber may hold everybody up for its whole absence,
// a few thousand steps at a time.
constexpr std::uint64_t kPatience = 6'000'000;
// Turns between two steps of the starved fiber, at most.
constexpr std::uint64_t kLongestAbsence = 400;

constexpr auto kRelaxed = std::memory_order_relaxed;

// Fibers are kept, since making one is dear.
std::vector<std::unique_ptr<Fiber>>& idle_fibers() {
    static std::vector<std::unique_ptr<Fiber>> fibers;
    return fibers;
}

std::unique_ptr<Fiber> take_fiber() {
    auto& idle = idle_fibers();
    if (idle.empty()) return std::make_unique<Fiber>();
    auto fiber = std::move(idle.back());
    idle.pop_back();
    return fiber;
}

bool tracing = false;

}  // namespace

// What scheduler and fiber tell each other is relaxed words: they order nothing.
struct Scheduler::Task {
    Task(std::string task_name, std::uint64_t seed) : name(std::move(task_name)), random(seed) {}

    std::string const name;
    Scheduler* scheduler = nullptr;
    std::unique_ptr<Fiber> fiber = take_fiber();
    std::int64_t priority = 0;
    std::atomic<std::uint64_t> quantum{0};  // yield points it may pass before it must leave
    std::atomic<bool> waits{false};         // it left in `pause`
    std::atomic<std::uint64_t> pauses{0};
    std::atomic<char const*> doing{"start"};
    std::atomic<char const*> operation{""};
    std::atomic<void const*> word{nullptr};
    test::Random random;  // the fiber's own
};

namespace {

std::atomic<void*> running_task{nullptr};

}  // namespace

char const* to_string(Policy policy) {
    switch (policy) {
        case Policy::Walk: return "walk";
        case Policy::Priorities: return "priorities";
        case Policy::Starve: return "starve";
    }
    return "?";
}

Scheduler::Scheduler(Policy policy, std::uint64_t seed) : policy_(policy), random_(seed) {
    longest_turn_ = std::uint64_t{1} << random_.below(7);
    victim_ = random_.next();
    // Most runs make some thousand steps.
    std::uint64_t const changes = random_.below(8);
    std::uint64_t const span = std::uint64_t{64} << random_.below(9);
    for (std::uint64_t i = 0; i < changes; ++i) changes_.push_back(random_.below(span));
    std::sort(changes_.rbegin(), changes_.rend());
}

Scheduler::~Scheduler() {
    // A fiber that has not ended (after a Hang) is in the middle of something: it is left alone.
    for (auto& task : tasks_) {
        if (task->fiber->ended()) {
            idle_fibers().push_back(std::move(task->fiber));
        } else {
            (void)task.release();
        }
    }
}

void Scheduler::spawn(std::string name, std::function<void()> body) {
    auto& task = *tasks_.emplace_back(std::make_unique<Task>(std::move(name), random_.next()));
    task.scheduler = this;
    task.priority = std::int64_t(random_.below(1000)) + 1;
    task.fiber->start(std::move(body));
    alive_.push_back(&task);
}

void Scheduler::at_step(std::uint64_t step, std::function<void()> action) {
    actions_.push_back({step, std::move(action)});
    std::sort(actions_.begin(), actions_.end(),
              [](Action const& a, Action const& b) { return a.step > b.step; });
}

void Scheduler::run() {
    while (!alive_.empty()) {
        run_actions();
        Turn turn = next_turn();
        if (!actions_.empty()) turn.steps = std::min(turn.steps, actions_.back().step - steps_);
        resume(turn);
        if (!turn.task->fiber->ended()) {
            check_progress();
            continue;
        }
        if (auto const& exception = turn.task->fiber->exception()) {
            std::rethrow_exception(exception);
        }
        alive_.erase(std::find(alive_.begin(), alive_.end(), turn.task));
    }
}

void Scheduler::run_actions() {
    while (!actions_.empty() && actions_.back().step <= steps_) {
        auto const action = std::move(actions_.back().run);
        actions_.pop_back();
        action();
    }
}

void Scheduler::resume(Turn turn) {
    Task& task = *turn.task;
    task.quantum.store(turn.steps, kRelaxed);
    task.waits.store(false, kRelaxed);
    running_task.store(&task, kRelaxed);
    task.fiber->resume();
    running_task.store(nullptr, kRelaxed);
    steps_ += std::max<std::uint64_t>(turn.steps - task.quantum.load(kRelaxed), 1);
}

Scheduler::Turn Scheduler::next_turn() {
    switch (policy_) {
        case Policy::Walk: return walk();
        case Policy::Priorities: return by_priority();
        case Policy::Starve: return starve();
    }
    return walk();
}

Scheduler::Turn Scheduler::walk() {
    return {alive_[random_.below(alive_.size())], 1 + random_.below(longest_turn_)};
}

Scheduler::Turn Scheduler::by_priority() {
    auto const highest = [&] {
        return *std::max_element(alive_.begin(), alive_.end(), [](Task const* a, Task const* b) {
            return a->priority < b->priority;
        });
    };
    Task* task = highest();
    // Who waits lets everybody else go first.
    if (task->waits.load(kRelaxed)) {
        task->priority = --lowest_;
        task->waits.store(false, kRelaxed);
        task = highest();
    }
    while (!changes_.empty() && changes_.back() <= steps_) {
        changes_.pop_back();
        task->priority = --lowest_;
        task = highest();
    }
    return {task, changes_.empty() ? kLongTurn : changes_.back() - steps_};
}

Scheduler::Turn Scheduler::starve() {
    Task* const victim = tasks_[victim_ % tasks_.size()].get();
    Task* task = alive_[round_++ % alive_.size()];
    if (task == victim && alive_.size() > 1 && !random_.one_in(kLongestAbsence / alive_.size())) {
        task = alive_[round_++ % alive_.size()];
    }
    return {task, 1 + random_.below(task == victim ? 3 : 16)};
}

void Scheduler::check_progress() {
    if (!progress_) return;
    if (steps_ - progress_step_ < kPatience / 16) return;
    std::uint64_t const progress = progress_();
    if (progress != last_progress_) {
        last_progress_ = progress;
        progress_step_ = steps_;
        return;
    }
    if (steps_ - progress_step_ < kPatience) return;
    throw Hang("nothing moved for " + std::to_string(steps_ - progress_step_) +
               " steps:" + describe());
}

std::string Scheduler::describe() const {
    std::string text;
    for (Task const* task : alive_) {
        void const* const word = task->word.load(kRelaxed);
        text += "\n  " + task->name + ": in " + task->doing.load(kRelaxed) + ", last " +
                task->operation.load(kRelaxed) + " of " + (namer_ ? namer_(word) : "a word") +
                ", waited " + std::to_string(task->pauses.load(kRelaxed)) + " times";
    }
    return text;
}

void Scheduler::trace(bool on) {
    tracing = on;
}

void Scheduler::yield_point(char const* operation, void const* word) {
    auto* const task = static_cast<Task*>(running_task.load(kRelaxed));
    if (task == nullptr) return;
    task->operation.store(operation, kRelaxed);
    task->word.store(word, kRelaxed);
    if (tracing) {
        std::string const name = task->scheduler->namer_ ? task->scheduler->namer_(word) : "";
        std::fprintf(stderr, "%s: %s, %s %s\n", task->name.c_str(), task->doing.load(kRelaxed),
                     operation, name.c_str());
    }
    std::uint64_t const left = task->quantum.load(kRelaxed);
    if (left > 1) {
        task->quantum.store(left - 1, kRelaxed);
        return;
    }
    task->quantum.store(0, kRelaxed);
    task->fiber->leave();
}

void Scheduler::pause() {
    auto* const task = static_cast<Task*>(running_task.load(kRelaxed));
    if (task == nullptr) return;
    task->pauses.store(task->pauses.load(kRelaxed) + 1, kRelaxed);
    task->waits.store(true, kRelaxed);
    task->fiber->leave();
}

void Scheduler::at(char const* doing) {
    auto* const task = static_cast<Task*>(running_task.load(kRelaxed));
    if (task != nullptr) task->doing.store(doing, kRelaxed);
}

bool Scheduler::one_in(std::uint64_t chance) {
    auto* const task = static_cast<Task*>(running_task.load(kRelaxed));
    return task != nullptr && task->random.one_in(chance);
}

}  // namespace mgi::hostile
