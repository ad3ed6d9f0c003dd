// The place of tests: groups are threads, memory is the host's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "operators/gpu/place.hpp"

namespace mgi::operators::on_gpu {

class HostPlace : public Place {
public:
    HostPlace(u32 groups, u32 threads, PlaceOptions const& options)
        : Place(options), groups_(groups), threads_(threads) {
        if (!options.allocator) return;
        CallersMemory::Site site;
        site.name = name();
        site.gpu = gpu();
        site.on_gpu = false;
        site.stream = this;  // one of its own, so to speak
        site.callers = options.stream;
        site.wait = [this] { wait(); };
        site.trim = [this] { trim(); };
        callers_ = std::make_shared<CallersMemory>(options.allocator, site);
    }
    ~HostPlace() override {
        if (callers_) callers_->end_call();
    }

    [[nodiscard]] std::string name() const override { return "the host"; }
    [[nodiscard]] bool is_gpu() const override { return false; }
    [[nodiscard]] int gpu() const override { return -1; }
    [[nodiscard]] bool reaches(Place const&) const override { return true; }
    [[nodiscard]] bool reaches_memory(Place const&, void*) const override { return true; }
    [[nodiscard]] u32 threads() const override { return threads_; }
    [[nodiscard]] u32 most_groups() const override { return groups_; }
    void fill(void* at, int byte, u64 bytes) override { std::memset(at, byte, bytes); }
    void copy_in(void* to, void const* from, u64 bytes) override {
        if (bytes != 0) std::memcpy(to, from, bytes);
    }
    void copy(void* to, void const* from, u64 bytes) override { copy_in(to, from, bytes); }
    void copy_out(void* to, void const* from, u64 bytes) override {
        if (bytes != 0) std::memcpy(to, from, bytes);
    }
    void sort(WordsToSort& all) override {
        u64 const mask = all.bits == 64 ? ~u64{0} : (u64{1} << all.bits) - 1;
        std::vector<std::pair<u64, u32>> pairs(all.count);
        for (u64 i = 0; i < all.count; ++i) pairs[i] = {all.words[i], all.rows[i]};
        std::stable_sort(pairs.begin(), pairs.end(), [mask](auto const& a, auto const& b) {
            return (a.first & mask) < (b.first & mask);
        });
        std::swap(all.words, all.other_words);
        std::swap(all.rows, all.other_rows);
        for (u64 i = 0; i < all.count; ++i) {
            all.words[i] = pairs[i].first;
            all.rows[i] = pairs[i].second;
        }
    }
    void wait() override {}
    void follow(Place&) override {}

protected:
    Memory take(u64 bytes, std::string const& what) override {
        if (callers_) return callers_->take(bytes, what);
        constexpr std::align_val_t kAlign{256};
        return {::operator new(bytes + 16, kAlign),
                [](void* at) { ::operator delete(at, kAlign); }};
    }
    void run_groups(u32 scratch_bytes, Body const& body) override {
        std::vector<std::thread> threads;
        std::vector<std::unique_ptr<device::HostBarrier>> barriers;
        std::vector<std::vector<u64>> scratch(groups_);
        for (u32 g = 0; g < groups_; ++g) {
            scratch[g].resize(scratch_bytes / 8 + 2);
            barriers.push_back(std::make_unique<device::HostBarrier>(threads_));
        }
        for (u32 g = 0; g < groups_; ++g) {
            for (u32 t = 0; t < threads_; ++t) {
                device::HostBarrier* const barrier = threads_ == 1 ? nullptr : barriers[g].get();
                auto* const data = reinterpret_cast<std::byte*>(scratch[g].data());
                threads.emplace_back([&body, scratch_bytes, g, t, barrier, data, this] {
                    device::Group const group{g, groups_, t, threads_, g, barrier};
                    device::Shared shared{data, scratch_bytes};
                    body(group, shared);
                });
            }
        }
        for (auto& thread : threads) thread.join();
    }
    [[nodiscard]] void* stream() const override { return nullptr; }

private:
    u32 const groups_;
    u32 const threads_;
    std::shared_ptr<CallersMemory> callers_;
};

}  // namespace mgi::operators::on_gpu
