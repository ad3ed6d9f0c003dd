#include <mgi/gpu_windows.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "core/log.hpp"
#include "gpu/memory.hpp"
#include "runtime/agreement.hpp"
#include "runtime/gpu_handover.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// Eight sizes of each power of two, so that windows fit again; the driver gives 2 MiB at least.
std::uint64_t rounded(std::uint64_t bytes) {
    std::uint64_t step = std::uint64_t{2} << 20;
    while (step * 16 <= bytes) step *= 2;
    return (std::max<std::uint64_t>(bytes, 1) + step - 1) / step * step;
}

// One window of this process.
struct OwnWindow {
    OwnWindow(int on, std::uint64_t size, std::uint64_t of)
        : gpu(on), bytes(size), round(of), memory(on, size, "a window") {}
    [[nodiscard]] void* at() const {
        return reinterpret_cast<void*>(memory.at());  // NOLINT(performance-no-int-to-ptr)
    }
    [[nodiscard]] bool is_idle() const { return !last_use || last_use->is_done(); }

    int const gpu;
    std::uint64_t const bytes;  // by which it is found again
    std::uint64_t const round;  // of Shelf
    std::uint64_t const number = gpu::new_number();
    gpu::Mapping memory;
    bool open = false;         // others may write into it
    std::set<std::size_t> to;  // processes that it was handed to
    std::optional<gpu::OwnEvent> last_use;
};

std::uint64_t total_memory(int gpu) {
    auto const& driver = gpu::Driver::get();
    std::size_t bytes = 0;
    driver.check(driver.cuDeviceTotalMem(&bytes, gpu), "ask how much memory it has", gpu);
    return bytes;
}

// This process' windows. Those that go are freed when the next ones are made, never when they are given back: unmapping may
// wait for kernels that wait for the thread that gives back. Thread-safe.
class Shelf {
public:
    // Lives to the end of the process, as windows may.
    static Shelf& get() {
        static auto* const shelf = new Shelf;
        return *shelf;
    }

    // Of the windows that some processes share until they meet anew.
    std::uint64_t new_round() {
        std::lock_guard const lock(mutex_);
        return ++rounds_;
    }
    void end_round(std::uint64_t round) noexcept {
        std::lock_guard const lock(mutex_);
        drop([&](OwnWindow const& one) { return one.round == round; });
    }

    std::shared_ptr<void> take(int gpu, std::uint64_t bytes, std::uint64_t round) {
        free_gone();
        std::unique_ptr<OwnWindow> window = find(gpu, rounded(bytes), round);
        if (!window) window = make(gpu, rounded(bytes), round);
        window->last_use.reset();
        void* const at = window->at();
        std::lock_guard const lock(mutex_);
        used_.emplace(at, std::move(window));
        return {at, [this](void* of) { give_back(of); }};
    }

    // Of one that is in use; the caller's while it is.
    OwnWindow& of(void* at) {
        std::lock_guard const lock(mutex_);
        return *used_.at(at);
    }

    // Numbers of those that a round has.
    std::vector<std::uint64_t> numbers(std::uint64_t round) {
        std::vector<std::uint64_t> all;
        std::lock_guard const lock(mutex_);
        auto const add = [&](OwnWindow const& one) {
            if (one.round == round) all.push_back(one.number);
        };
        for (auto const& [at, one] : used_) add(*one);
        for (auto const& one : kept_) add(*one);
        return all;
    }

    std::uint64_t trim(int gpu) {
        std::uint64_t bytes = 0;
        {
            std::lock_guard const lock(mutex_);
            bytes = drop([&](OwnWindow const& one) { return one.gpu == gpu; });
        }
        free_gone();
        return bytes;
    }

private:
    static constexpr std::size_t kMost = 16;  // of a GPU
    // Of a GPU's memory, as operators keep of other memory.
    static constexpr std::uint64_t kMostShare = 4;
    // How long one that has just come back is waited for.
    static constexpr auto kIdleSoon = std::chrono::microseconds(200);
    static inline auto* const kLegacyStream = reinterpret_cast<gpu::Stream>(std::uintptr_t{1});

    std::unique_ptr<OwnWindow> find(int gpu, std::uint64_t bytes, std::uint64_t round) {
        auto const until = std::chrono::steady_clock::now() + kIdleSoon;
        for (;;) {
            bool waits = false;
            {
                std::lock_guard const lock(mutex_);
                for (auto at = kept_.begin(); at != kept_.end(); ++at) {
                    OwnWindow const& one = **at;
                    if (one.gpu != gpu || one.bytes != bytes || one.round != round) continue;
                    waits = true;
                    if (!one.is_idle()) continue;
                    std::unique_ptr<OwnWindow> window = std::move(*at);
                    kept_.erase(at);
                    return window;
                }
            }
            if (!waits || std::chrono::steady_clock::now() > until) return nullptr;
            std::this_thread::yield();
        }
    }

    std::unique_ptr<OwnWindow> make(int gpu, std::uint64_t bytes, std::uint64_t round) {
        try {
            return std::make_unique<OwnWindow>(gpu, bytes, round);
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
        }
        (void)trim(gpu);
        return std::make_unique<OwnWindow>(gpu, bytes, round);
    }

    void give_back(void* at) noexcept {
        std::lock_guard const lock(mutex_);
        auto const found = used_.find(at);
        std::unique_ptr<OwnWindow> window = std::move(found->second);
        used_.erase(found);
        try {
            window->last_use.emplace(window->gpu, kLegacyStream);
            // Into one that is open other processes may write: they keep what they have mapped, and it is nobody's any more.
            auto& list = window->open ? going_ : kept_;
            list.push_back(std::move(window));
            drop_surplus();
        } catch (std::exception const&) {
            // The GPU's context is lost, and its memory with it; or there is no memory to note it, and it stays taken.
            [[maybe_unused]] auto* const stays = window.release();
        }
    }

    // What came first goes first.
    void drop_surplus() {
        std::map<int, std::size_t> count;
        std::map<int, std::uint64_t> bytes;
        for (auto const& one : kept_) {
            ++count[one->gpu];
            bytes[one->gpu] += one->bytes;
        }
        drop([&](OwnWindow const& one) {
            bool const many =
                count[one.gpu] > kMost || bytes[one.gpu] > total_memory(one.gpu) / kMostShare;
            if (!many) return false;
            --count[one.gpu];
            bytes[one.gpu] -= one.bytes;
            return true;
        });
    }

    // Of what is kept; returns the bytes that go.
    template <class Goes>
    std::uint64_t drop(Goes const& goes) {
        std::uint64_t bytes = 0;
        for (auto at = kept_.begin(); at != kept_.end();) {
            if (!goes(**at)) {
                ++at;
                continue;
            }
            bytes += (*at)->bytes;
            going_.push_back(std::move(*at));
            at = kept_.erase(at);
        }
        return bytes;
    }

    void free_gone() {
        std::vector<std::unique_ptr<OwnWindow>>
            gone;  // dies behind the lock: unmapping takes its time
        std::lock_guard const lock(mutex_);
        for (auto at = going_.begin(); at != going_.end();) {
            if (!(*at)->is_idle()) {
                ++at;
                continue;
            }
            gone.push_back(std::move(*at));
            at = going_.erase(at);
        }
    }

    std::mutex mutex_;
    std::uint64_t rounds_ = 0;
    std::map<void*, std::unique_ptr<OwnWindow>> used_;
    std::vector<std::unique_ptr<OwnWindow>> kept_;
    std::vector<std::unique_ptr<OwnWindow>> going_;
};

class GpuWindowsOf final : public GpuWindows {
public:
    GpuWindowsOf(Runtime::Impl& runtime, std::vector<Endpoint> const& endpoints) {
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints;
        mine_ = gpu_card(spec, runtime.devices(), runtime.coordinator().server(), true);
        for (Endpoint const endpoint : endpoints) {
            if (endpoint.device < runtime.devices().size()) {
                gpus_.push_back(runtime.devices()[endpoint.device].ordinal);
            }
        }
        std::sort(gpus_.begin(), gpus_.end());
        gpus_.erase(std::unique(gpus_.begin(), gpus_.end()), gpus_.end());
        try {
            if (!mine_.home.empty() && mine_.maps) mine_.door = door_.emplace().name();
        } catch (Error const& error) {
            log::info("GPU memory is not shared with other processes: {}", error.what());
            mine_.maps = false;
        }
    }
    ~GpuWindowsOf() override { Shelf::get().end_round(round_); }

    std::string card() override { return encode_card(mine_); }

    bool meet(std::vector<std::string> const& cards, std::size_t me) override {
        if (cards == cards_) return shares_;
        // Others have begun anew, or it is the first time: what they have heard of windows counts no more.
        std::vector<GpuCard> all;
        all.reserve(cards.size());
        for (std::string const& card : cards) all.push_back(decode_card(card));
        begin_anew();
        shares_ = are_all_peers(all);
        doors_.clear();
        for (GpuCard const& card : all) doors_.push_back(card.door);
        me_ = me;
        cards_ = cards;
        return shares_;
    }

    std::shared_ptr<void> make(int gpu, std::uint64_t bytes) override {
        return Shelf::get().take(gpu, bytes, round_);
    }

    // "anew count number bytes ... live number ..."
    std::string offer(std::vector<void*> const& windows) override {
        bool anew = false;
        try {
            for (std::size_t to = 0; to < doors_.size(); ++to) {
                for (void* const at : windows) {
                    if (to != me_) anew |= hand_to(to, Shelf::get().of(at));
                }
            }
        } catch (Error const& error) {
            if (!is_refusal(error)) throw;
            return std::string(kRefused) + error.what();
        }
        std::ostringstream words;
        words << (anew ? 1 : 0) << ' ' << windows.size();
        for (void* const at : windows) {
            OwnWindow& window = Shelf::get().of(at);
            window.open = true;
            words << ' ' << window.number << ' ' << window.memory.bytes();
        }
        auto const live = Shelf::get().numbers(round_);
        words << ' ' << live.size();
        for (std::uint64_t const number : live) words << ' ' << number;
        return words.str();
    }

    Opened open(std::vector<std::string> const& offers) override {
        for (auto& [name, handed] : door_->all_that_came()) came_[name] = std::move(handed);
        Opened opened;
        opened.windows.resize(offers.size());
        for (std::size_t p = 0; p < offers.size(); ++p) {
            if (offers[p].starts_with(kRefused)) {
                opened.anew = true;
                opened.failure = offers[p].substr(kRefused.size());
                continue;
            }
            std::istringstream words(offers[p]);
            auto const next = [&words] {
                std::uint64_t value = 0;
                if (!(words >> value)) {
                    throw Error(ErrorCode::Internal,
                                "another process offers GPU memory in words that this one does not "
                                "understand; let all run the same version of MGI");
                }
                return value;
            };
            opened.anew |= next() != 0;
            for (std::uint64_t left = next(); left != 0; --left) {
                std::uint64_t const number = next();
                std::uint64_t const bytes = next();
                if (p == me_) continue;
                try {
                    opened.windows[p].push_back({open_one(p, number, bytes), bytes});
                } catch (Error const& error) {
                    if (!is_refusal(error)) throw;
                    opened.failure = error.what();
                }
            }
            std::set<std::uint64_t> live;
            for (std::uint64_t left = next(); left != 0; --left) live.insert(next());
            std::erase_if(others_, [&](auto const& one) {
                return one.second.process == p && !live.contains(one.first);
            });
        }
        came_.clear();
        return opened;
    }

    void close(std::vector<void*> const& windows) override {
        for (void* const at : windows) Shelf::get().of(at).open = false;
    }

    // The others learn it by this process' card, should they not know.
    void do_without() override {
        mine_.maps = false;
        shares_ = false;
        cards_.clear();
        begin_anew();
    }

private:
    static constexpr std::string_view kRefused = "refused: ";
    // Another process' window.
    struct Other {
        std::size_t process = 0;
        std::unique_ptr<gpu::ImportedMemory> memory;
    };

    void begin_anew() {
        Shelf::get().end_round(round_);
        round_ = Shelf::get().new_round();
        others_.clear();
        came_.clear();
    }

    // What goes with a descriptor, so that its window is found.
    static std::uint32_t name_of(std::uint64_t number) { return std::uint32_t(number); }

    // Hands a window to a process that has not got it yet; whether it had not.
    bool hand_to(std::size_t process, OwnWindow& window) {
        if (window.to.contains(process)) return false;
        transport::wire::Descriptor const memory(window.memory.descriptor("share a window"));
        // It stands at the door, also when this end is closed.
        (void)hand_over(doors_[process], name_of(window.number), {memory.get()});
        window.to.insert(process);
        return true;
    }

    char* open_one(std::size_t process, std::uint64_t number, std::uint64_t bytes) {
        auto const known = others_.find(number);
        if (known != others_.end()) return known->second.memory->data();
        auto const came = came_.find(name_of(number));
        if (came == came_.end() || came->second.memories.empty()) {
            throw Error(ErrorCode::Refused, "a window's descriptor has not come");
        }
        auto memory = std::make_unique<gpu::ImportedMemory>(
            gpus_, came->second.memories.front().get(), bytes);
        char* const at = memory->data();
        others_[number] = {process, std::move(memory)};
        return at;
    }

    std::vector<int> gpus_;  // of this process
    std::optional<GpuDoor> door_;
    GpuCard mine_;
    std::vector<std::string> cards_;  // of all, as they met last
    bool shares_ = false;
    std::vector<std::string> doors_;
    std::size_t me_ = 0;
    std::uint64_t round_ = Shelf::get().new_round();
    std::map<std::uint32_t, GpuHandover> came_;
    std::map<std::uint64_t, Other> others_;  // by number
};

}  // namespace

std::shared_ptr<GpuWindows> gpu_windows(Runtime const& runtime,
                                        std::vector<Endpoint> const& endpoints) {
    return runtime.impl()->windows_of(
        endpoints, [&] { return std::make_shared<GpuWindowsOf>(*runtime.impl(), endpoints); });
}

std::uint64_t trim_gpu_windows(int gpu) {
    return Shelf::get().trim(gpu);
}

}  // namespace mgi
