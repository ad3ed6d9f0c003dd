// What processes say to each other when they make a channel together: what each was asked for, and how far
// it has come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/channel.hpp>

#include "runtime/crossing.hpp"
#include "runtime/gpu_direct.hpp"
#include "runtime/gpu_sharing.hpp"

namespace mgi {

// One process' words.
struct Said {
    std::vector<std::pair<std::string, std::string>> fields;  // of the specification, by name
    std::uint32_t id = 0;                                     // from who made the channel
    std::optional<Terms> terms;                               // the same, where servers are crossed
    std::vector<std::string> addresses;                       // where it is reached, if so
    GpuCard gpus;                                             // of its GPUs, where there are any
    std::optional<DirectCard> direct;                         // whether NICs reach them
    SharedGpus shared_gpus;                                   // what of their memory others use
    // The part's address is not free in this process, or GPUs' memory not to be shared as it was thought: all try
    // again.
    bool taken = false;
    std::optional<Error> error;  // why it cannot
};

// A specification as fields that can be compared.
std::vector<std::pair<std::string, std::string>> fields_of(ChannelSpec const& spec);

std::string encode(Said const& said);
// Throws Error(Internal) for the words of another version.
Said decode(std::string_view text);

// A card alone, on one line; decoding throws as above.
std::string encode_card(GpuCard const& card);
GpuCard decode_card(std::string_view text);

// Throws the first error of all, which names whose it is, or Error(InvalidArgument) that names the field by
// which somebody's specification differs from the first one's: the same in every process.
void check_agreement(std::vector<Said> const& all, std::vector<std::string> const& names,
                     std::string const& who);

}  // namespace mgi
