/// \file
/// What GPUs exchange in a benchmark, whichever library carries it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data.hpp"

namespace mgi::bench {

/// Which GPUs send to which: all GPUs or the first one are sources, all or the last one destinations. One-to-one is between two.
enum class Pattern { Exchange, ManyToOne, OneToMany, OneToOne, Broadcast };

inline constexpr std::pair<Pattern, char const*> kPatterns[] = {
    {Pattern::Exchange, "exchange"},     {Pattern::ManyToOne, "many-to-one"},
    {Pattern::OneToMany, "one-to-many"}, {Pattern::OneToOne, "one-to-one"},
    {Pattern::Broadcast, "broadcast"},
};

struct Load {
    u32 gpus = 0;
    Layout layout = Layout::Rows;
    u64 rows = 0;  ///< of each source
    u32 words = 4;
    Pattern pattern = Pattern::Exchange;
    double theta = 0;  ///< of the keys' Zipf law; 0: uniform
    // Of MGI's channel, as ChannelOptions has them.
    bool by_reference = true;
    u32 segment_bytes = 0;
    u32 slots = 0;
    u32 chunk_rows = 0;

    [[nodiscard]] bool to_all() const { return pattern == Pattern::Broadcast; }
    [[nodiscard]] u32 sources() const {
        return pattern == Pattern::Exchange || pattern == Pattern::ManyToOne ? gpus : 1;
    }
    [[nodiscard]] u32 destinations() const {
        return pattern == Pattern::ManyToOne || pattern == Pattern::OneToOne ? 1 : gpus;
    }
    /// The GPU of a destination.
    [[nodiscard]] u32 destination(u32 d) const { return gpus - destinations() + d; }
    [[nodiscard]] bool sends(u32 gpu) const { return gpu < sources(); }
    [[nodiscard]] bool receives(u32 gpu) const { return gpu >= gpus - destinations(); }
    [[nodiscard]] u64 rows_of(u32 gpu) const { return sends(gpu) ? rows : 0; }
    /// Parts of a source's rows: one for each destination, but for a broadcast, whose rows all go to all.
    [[nodiscard]] u32 parts() const { return to_all() ? 1 : destinations(); }
    [[nodiscard]] u32 row_bytes() const { return words * 8; }
    /// Of payload that all destinations get.
    [[nodiscard]] u64 bytes() const {
        return rows * row_bytes() * sources() * (to_all() ? destinations() : 1);
    }
};

inline char const* name_of(Pattern pattern) {
    for (auto const& [one, name] : kPatterns) {
        if (one == pattern) return name;
    }
    return "?";
}

/// As words of a command, and back. Throws where a word is none of them, or no such load can be.
std::vector<std::string> words_of(Load const& load);
Load load_of(std::vector<std::string> const& words);

}  // namespace mgi::bench
