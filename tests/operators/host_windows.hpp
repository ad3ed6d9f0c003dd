/// \file
/// Windows of processes that are threads.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include <mgi/gpu_windows.hpp>

#include "operators/gpu/place.hpp"
#include "operators/message.hpp"

namespace mgi::operators::on_gpu {

/// Windows in memory that all processes have, as they are threads.
class HostWindows final : public GpuWindows {
public:
    /// `opens`: whether this process can open others'.
    explicit HostWindows(bool opens) : opens_(opens) {}

    std::string card() override { return "host"; }
    bool meet(std::vector<std::string> const& cards, std::size_t me) override {
        me_ = me;
        return shares_ && std::find(cards.begin(), cards.end(), "") == cards.end();
    }
    std::shared_ptr<void> make(int, u64 bytes) override {
        constexpr std::align_val_t kAlign{256};
        void* const at = ::operator new(bytes + 16, kAlign);
        return {at, [](void* of) { ::operator delete(of, kAlign); }};
    }
    std::string offer(std::vector<void*> const& windows) override {
        open_.insert(windows.begin(), windows.end());
        MessageWriter words;
        words.number(windows.size());
        for (void* const at : windows) words.number(reinterpret_cast<u64>(at));
        return words.take();
    }
    Opened open(std::vector<std::string> const& offers) override {
        Opened opened;
        opened.anew = true;
        if (!opens_) opened.failure = "not here";
        for (std::string const& words : offers) {
            MessageReader from(words);
            auto& theirs = opened.windows.emplace_back();
            for (u64 left = from.number(); left != 0; --left) {
                theirs.push_back({reinterpret_cast<char*>(from.number()), ~u64{0}});
            }
        }
        opened.windows[me_].clear();  // nobody opens its own
        return opened;
    }
    void close(std::vector<void*> const& windows) override {
        for (void* const at : windows) open_.erase(at);
    }
    void do_without() override { shares_ = false; }
    [[nodiscard]] bool all_closed() const { return open_.empty(); }

private:
    bool const opens_;
    bool shares_ = true;
    std::size_t me_ = 0;
    std::set<void*> open_;
};

}  // namespace mgi::operators::on_gpu
