// Results of other processes, as kernels of this one write into them.
#pragma once

#include <utility>
#include <vector>

#include <mgi/gpu_windows.hpp>

#include "operators/gpu/outputs.hpp"

namespace mgi::operators::on_gpu {

// Takes the windows that each process has offered, one result after the other. Who offers a result offers its table, its drafts
// and its texts, as far as there are any. Throws Error where there is less than a result takes.
class OthersWindows {
public:
    explicit OthersWindows(std::vector<std::vector<GpuWindows::Window>> const& opened)
        : opened_(opened), next_(opened.size()) {}

    [[nodiscard]] std::vector<OutputColumn> columns(std::size_t process,
                                                    OutputLayout const& layout) {
        auto const more = [&](u64 bytes) { return bytes == 0 ? nullptr : take(process, bytes); };
        char* const memory = take(process, layout.bytes());
        char* const draft = more(layout.draft_bytes());
        return layout.columns(memory, draft, more(layout.text_bytes()));
    }

private:
    char* take(std::size_t process, u64 bytes) {
        auto const& theirs = opened_[process];
        std::size_t const at = next_[process]++;
        if (at >= theirs.size() || theirs[at].bytes < bytes) MessageReader::refuse();
        return theirs[at].at;
    }

    std::vector<std::vector<GpuWindows::Window>> const& opened_;
    std::vector<std::size_t> next_;  // by process
};

}  // namespace mgi::operators::on_gpu
