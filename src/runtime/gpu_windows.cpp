#include <mgi/gpu_windows.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "gpu/memory.hpp"
#include "runtime/agreement.hpp"
#include "runtime/gpu_handover.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// Eight sizes of each power of two, so that windows fit again.
std::uint64_t rounded(std::uint64_t bytes) {
    std::uint64_t step = std::uint64_t{256} << 10;
    while (step * 16 <= bytes) step *= 2;
    return (std::max<std::uint64_t>(bytes, 1) + step - 1) / step * step;
}

// Of a window, among those of all processes.
std::uint64_t new_number() {
    static std::mutex mutex;
    static std::mt19937_64 numbers{std::random_device{}()};
    std::lock_guard const lock(mutex);
    return numbers();
}

// One window of this process.
struct Window {
    Window(int on, std::uint64_t size, std::uint64_t of)
        : gpu(on), bytes(size), round(of), memory(on, size, "a window") {}
    int const gpu;
    std::uint64_t const bytes;  // by which it is found again
    std::uint64_t const round;  // of Shelf
    std::uint64_t const number = new_number();
    gpu::Mapping memory;
    bool open = false;                    // others may write into it
    std::map<std::size_t, Descriptor> to;  // by process: over which it was handed over
    std::optional<gpu::OwnEvent> last_use;
};

std::uint64_t total_memory(int gpu) {
    auto const& driver = gpu::Driver::get();
    std::size_t bytes = 0;
    driver.check(driver.cuDeviceTotalMem(&bytes, gpu), "ask how much memory it has", gpu);
    return bytes;
}

// Waits until nothing runs on a GPU.
void settle(int gpu) noexcept {
    try {
        auto const& driver = gpu::Driver::get();
        gpu::Current const here(driver, gpu);
        (void)driver.cuCtxSynchronize();
    } catch (std::exception const&) {
        // The GPU's context is lost: nothing runs there.
    }
}

// This process' windows, in use and kept. Windows that are given out hold it.
class Shelf {
public:
    std::shared_ptr<void> take(std::shared_ptr<Shelf> const& self, int gpu, std::uint64_t bytes) {
        std::unique_ptr<Window> window = find(gpu, rounded(bytes));
        if (!window) window = make(gpu, rounded(bytes));
        // The reader before may read it still.
        while (window->last_use && !window->last_use->is_done()) std::this_thread::yield();
        window->last_use.reset();
        auto* const at = address_of(*window);
        std::lock_guard const lock(mutex_);
        used_.emplace(at, std::move(window));
        return {at, [self](void* of) { self->give_back(of); }};
    }

    // Of one that is in use; the caller's while it is.
    Window& of(void* at) {
        std::lock_guard const lock(mutex_);
        return *used_.at(at);
    }

    // Frees what is kept.
    void trim() noexcept {
        std::vector<std::unique_ptr<Window>> gone;
        {
            std::lock_guard const lock(mutex_);
            gone.swap(kept_);
        }
        free(gone);
    }

    // The others are not who they were: what they have heard of windows counts no more.
    void begin_anew() noexcept {
        {
            std::lock_guard const lock(mutex_);
            ++round_;
        }
        trim();
    }

private:
    static constexpr std::size_t kMost = 16;
    // Of a GPU's memory, as operators keep of other memory.
    static constexpr std::uint64_t kMostShare = 4;

    static void* address_of(Window const& window) {
        return reinterpret_cast<void*>(window.memory.at());  // NOLINT(performance-no-int-to-ptr)
    }

    std::unique_ptr<Window> find(int gpu, std::uint64_t bytes) {
        std::lock_guard const lock(mutex_);
        auto const at = std::find_if(kept_.begin(), kept_.end(), [&](auto const& one) {
            return one->gpu == gpu && one->bytes == bytes;
        });
        if (at == kept_.end()) return nullptr;
        std::unique_ptr<Window> window = std::move(*at);
        kept_.erase(at);
        return window;
    }

    std::unique_ptr<Window> make(int gpu, std::uint64_t bytes) {
        std::uint64_t round = 0;
        {
            std::lock_guard const lock(mutex_);
            round = round_;
        }
        try {
            return std::make_unique<Window>(gpu, bytes, round);
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
        }
        trim();
        return std::make_unique<Window>(gpu, bytes, round);
    }

    static void free(std::vector<std::unique_ptr<Window>>& windows) noexcept {
        std::set<int> gpus;
        for (auto const& window : windows) {
            if (gpus.insert(window->gpu).second) settle(window->gpu);
        }
        windows.clear();
    }

    // Those that are kept too many, what came first first.
    std::vector<std::unique_ptr<Window>> surplus() {
        std::map<int, std::uint64_t> bytes;
        for (auto const& one : kept_) bytes[one->gpu] += one->bytes;
        std::vector<std::unique_ptr<Window>> gone;
        for (auto at = kept_.begin(); at != kept_.end();) {
            std::uint64_t& here = bytes[(*at)->gpu];
            if (kept_.size() <= kMost && here <= total_memory((*at)->gpu) / kMostShare) {
                ++at;
                continue;
            }
            here -= (*at)->bytes;
            gone.push_back(std::move(*at));
            at = kept_.erase(at);
        }
        return gone;
    }

    void give_back(void* at) noexcept {
        std::vector<std::unique_ptr<Window>> gone;
        try {
            std::lock_guard const lock(mutex_);
            auto const found = used_.find(at);
            gone.push_back(std::move(found->second));
            used_.erase(found);
            // Into one that is open other processes may write: they keep what they have mapped, and it is nobody's any more.
            if (!gone.front()->open && gone.front()->round == round_) {
                gone.front()->last_use.emplace(gone.front()->gpu, kLegacyStream);
                kept_.push_back(std::move(gone.front()));
                gone = surplus();
            }
        } catch (std::exception const&) {
            // The GPU's context is lost, or there is no memory to note it: it is freed.
            std::erase(gone, nullptr);
        }
        free(gone);
    }

    static inline auto* const kLegacyStream = reinterpret_cast<gpu::Stream>(std::uintptr_t{1});

    std::mutex mutex_;
    std::uint64_t round_ = 0;
    std::map<void*, std::unique_ptr<Window>> used_;
    std::vector<std::unique_ptr<Window>> kept_;
};

// Another process' window.
struct Other {
    std::shared_ptr<Descriptor const> connection;
    std::unique_ptr<gpu::ImportedMemory> memory;
};

class GpuWindowsOf final : public GpuWindows {
public:
    GpuWindowsOf(std::shared_ptr<Runtime::Impl> const& runtime,
                 std::vector<Endpoint> const& endpoints) {
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints;
        GpuCard mine = gpu_card(spec, runtime->devices(), runtime->coordinator().server(), true);
        for (Endpoint const endpoint : endpoints) {
            if (endpoint.device < runtime->devices().size()) {
                gpus_.push_back(runtime->devices()[endpoint.device].ordinal);
            }
        }
        std::sort(gpus_.begin(), gpus_.end());
        gpus_.erase(std::unique(gpus_.begin(), gpus_.end()), gpus_.end());
        if (!mine.home.empty() && mine.maps) mine.door = door_.emplace().name();
        card_ = encode_card(mine);
    }

    std::string card() override { return card_; }

    bool meet(std::vector<std::string> const& cards, std::size_t me) override {
        if (cards == cards_) return shares_;
        // Others have begun anew, or it is the first time.
        std::vector<GpuCard> all;
        all.reserve(cards.size());
        for (std::string const& card : cards) all.push_back(decode_card(card));
        shelf_->begin_anew();
        others_.clear();
        shares_ = are_all_peers(all);
        doors_.clear();
        for (GpuCard const& card : all) doors_.push_back(card.door);
        me_ = me;
        cards_ = cards;
        return shares_;
    }

    std::shared_ptr<void> make(int gpu, std::uint64_t bytes) override {
        return shelf_->take(shelf_, gpu, bytes);
    }

    std::string offer(std::vector<void*> const& windows) override {
        bool anew = false;
        try {
            for (std::size_t to = 0; to < doors_.size(); ++to) {
                for (void* const at : windows) {
                    if (to != me_) anew |= hand_to(to, shelf_->of(at));
                }
            }
        } catch (Error const& error) {
            if (!is_refusal(error)) throw;
            return std::string(kRefused) + error.what();
        }
        std::ostringstream words;
        words << (anew ? 1 : 0) << ' ' << windows.size();
        for (void* const at : windows) {
            Window& window = shelf_->of(at);
            window.open = true;
            words << ' ' << window.number << ' ' << window.memory.bytes();
        }
        return words.str();
    }

    Opened open(std::vector<std::string> const& offers) override {
        prune();
        for (auto& [name, handed] : door_->all_that_came()) came_[name] = std::move(handed);
        Opened opened;
        opened.at.resize(offers.size());
        for (std::size_t p = 0; p < offers.size(); ++p) {
            if (offers[p].starts_with(kRefused)) {
                opened.anew = true;
                opened.failure = offers[p].substr(kRefused.size());
                continue;
            }
            std::istringstream words(offers[p]);
            bool anew = false;
            std::size_t count = 0;
            words >> anew >> count;
            opened.anew = opened.anew || anew;
            for (std::size_t i = 0; p != me_ && i < count; ++i) {
                std::uint64_t number = 0;
                std::uint64_t bytes = 0;
                words >> number >> bytes;
                try {
                    opened.at[p].push_back(open_one(number, bytes));
                } catch (Error const& error) {
                    if (!is_refusal(error)) throw;
                    opened.failure = error.what();
                }
            }
        }
        came_.clear();
        return opened;
    }

    void close(std::vector<void*> const& windows) override {
        for (void* const at : windows) shelf_->of(at).open = false;
    }

    void do_without() override { shares_ = false; }
    void trim() noexcept override { shelf_->trim(); }

private:
    static constexpr std::string_view kRefused = "refused: ";

    // What goes with a descriptor, so that its window is found.
    static std::uint32_t name_of(Window const& window) { return std::uint32_t(window.number); }

    // Lets go of what its process has no more.
    void prune() {
        std::erase_if(others_, [](auto const& one) { return is_closed(*one.second.connection); });
    }

    // Hands a window to a process that has not got it yet; whether it had not.
    bool hand_to(std::size_t process, Window& window) {
        if (window.to.contains(process)) return false;
        Descriptor const memory(window.memory.descriptor("share a window"));
        window.to.emplace(process, hand_over(doors_[process], name_of(window), {memory.get()}));
        return true;
    }

    char* open_one(std::uint64_t number, std::uint64_t bytes) {
        auto const known = others_.find(number);
        if (known != others_.end()) return known->second.memory->data();
        auto const came = came_.find(std::uint32_t(number));
        if (came == came_.end() || came->second.memories.empty()) {
            throw Error(ErrorCode::Refused, "a window's descriptor has not come");
        }
        auto memory = std::make_unique<gpu::ImportedMemory>(
            gpus_, came->second.memories.front().get(), bytes);
        char* const at = memory->data();
        others_[number] = {came->second.connection, std::move(memory)};
        return at;
    }

    std::vector<int> gpus_;  // of this process
    std::optional<GpuDoor> door_;
    std::string card_;
    std::vector<std::string> cards_;  // of all, as they met last
    bool shares_ = false;
    std::vector<std::string> doors_;
    std::size_t me_ = 0;
    std::shared_ptr<Shelf> const shelf_ = std::make_shared<Shelf>();
    std::map<std::uint32_t, GpuHandover> came_;
    std::map<std::uint64_t, Other> others_;  // by number
};

}  // namespace

std::shared_ptr<GpuWindows> gpu_windows(Runtime const& runtime,
                                        std::vector<Endpoint> const& endpoints) {
    return runtime.impl()->windows_of(endpoints, [&] {
        return std::make_shared<GpuWindowsOf>(runtime.impl(), endpoints);
    });
}

}  // namespace mgi
