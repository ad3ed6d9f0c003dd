// What the fake driver's machine is, and which calls fail.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "gpu_driver/fake_cuda.hpp"

namespace mgi::fake {

std::string setting(char const* name, std::string const& otherwise) {
    char const* const told = std::getenv(("MGI_FAKE_CUDA_" + std::string(name)).c_str());
    return told != nullptr ? told : otherwise;
}

namespace {

std::vector<std::string> split(std::string const& text, char at) {
    std::vector<std::string> parts;
    std::istringstream all(text);
    for (std::string part; std::getline(all, part, at);) parts.push_back(part);
    return parts;
}

bool loses(Result result) {
    return result == gpu::kEccUncorrectable || (result >= 700 && result < 800 && result != 701 &&
                                                result != 704 && result != 712 && result != 713);
}

bool pair_reaches(Machine const& machine, int a, int b) {
    if (machine.peers == "all" || machine.peers == "none") return machine.peers == "all";
    return names_pair(machine.peers, a, b);
}

}  // namespace

bool names_pair(std::string const& pairs, int a, int b) {
    for (std::string const& pair : split(pairs, ',')) {
        if (pair == std::to_string(a) + "-" + std::to_string(b)) return true;
        if (pair == std::to_string(b) + "-" + std::to_string(a)) return true;
    }
    return false;
}

bool reaches(Machine const& machine, int from, int to) {
    return from != to &&
           pair_reaches(machine, machine.gpus[std::size_t(from)], machine.gpus[std::size_t(to)]);
}

[[gnu::tls_model("initial-exec")]] thread_local CUctx_st* current = nullptr;

Machine& Machine::one() {
    static auto* const made = new Machine;  // outlives every thread, as the driver does
    return *made;
}

void Machine::read_environment() {
    version = std::stoi(setting("VERSION", "13000"));
    memory = std::stoull(setting("MEMORY", "1073741824"));
    name = setting("NAME", "NVIDIA H100 80GB HBM3");
    sm = std::stoi(setting("SM", "90"));
    peers = setting("PEERS", "all");
    broken = setting("BROKEN", "");
    maps = setting("MAPS", "1") == "1";
    managed = setting("MANAGED", "0") == "1";
    nics = setting("NICS", "none");
    lazy = setting("LOADING", "EAGER") == "LAZY";
    std::string const streams_run = setting("STREAMS", "at once");
    when = {};
    if (streams_run == "threads") when.kind = When::Threads;
    if (streams_run == "waited") when.kind = When::Waited;
    if (streams_run.rfind("late:", 0) == 0) {
        when = {When::Late, std::uint32_t(std::stoul(streams_run.substr(5)))};
    }
    int const there = std::stoi(setting("DEVICES", "1"));
    gpus.clear();
    char const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) {
        for (int gpu = 0; gpu < there; ++gpu) gpus.push_back(gpu);
    } else {
        for (std::string const& part : split(visible, ',')) {
            int const gpu = std::atoi(part.c_str());
            if (gpu < 0 || gpu >= there) break;  // as the driver: those before it are seen
            gpus.push_back(gpu);
        }
    }
    bus = split(setting("BUS", ""), ',');
    for (int gpu = int(bus.size()); gpu < there; ++gpu) {
        char text[16];
        std::snprintf(text, sizeof(text), "0000:%02x:00.0", unsigned(gpu + 1) & 0xff);
        bus.emplace_back(text);
    }
}

std::size_t Machine::room(int gpu) {
    std::size_t const before = std::min(used_before[gpu], used[gpu]);
    return memory - std::min(memory, used[gpu] - before);
}

void Machine::read_failures(char const* text) {
    failures.clear();
    calls.clear();
    for (std::string const& one : split(text, ',')) {
        auto const parts = split(one, ':');
        if (parts.size() != 3) std::abort();  // a test's mistake
        failures.push_back(
            {parts[0], std::stoull(parts[1]), parts[1].back() == '+', std::stoi(parts[2])});
    }
}

std::pair<Address const, Block> const* Machine::block_of(Address address, std::size_t bytes) const {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return nullptr;
    auto const& found = *--after;
    bool const inside = address - found.first <= found.second.bytes &&
                        bytes <= found.second.bytes - (address - found.first);
    return inside ? &found : nullptr;
}

Result begin(char const* call, CUctx_st* context) {
    Machine& machine = Machine::one();
    if (!machine.initialized) return kNotInitialized;
    if (context != nullptr && context->lost != gpu::kSuccess) return context->lost;
    std::uint64_t const count = ++machine.calls[call];
    for (Failure const& failure : machine.failures) {
        if (failure.call != call || count < failure.at) continue;
        if (count > failure.at && !failure.on) continue;
        if (context != nullptr && loses(failure.result)) context->lost = failure.result;
        return failure.result;
    }
    return gpu::kSuccess;
}

Result begin_here(char const* call) {
    if (current == nullptr) return Machine::one().initialized ? kInvalidContext : kNotInitialized;
    return begin(call, current);
}

}  // namespace mgi::fake
