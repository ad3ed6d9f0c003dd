#include "gpu/peers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "core/log.hpp"
#include "gpu/memory.hpp"

namespace mgi::gpu {

namespace {

constexpr char const* kTry = "try a peer's memory";
constexpr std::uint64_t kTried = 64 << 10;

// One way; whether it is there.
bool open_way(Driver const& driver, int from, int to) {
    if (!reaches(from, to)) return false;
    Current const here(driver, from);
    Result const result = driver.cuCtxEnablePeerAccess(primary_context(driver, to), 0);
    return result == kSuccess || result == kPeerAccessAlreadyEnabled;
}

void close_way(Driver const& driver, int from, int to) {
    Current const here(driver, from);
    (void)driver.cuCtxDisablePeerAccess(primary_context(driver, to));
}

// With numbers that follow from the seed.
void fill(char* to, std::uint64_t bytes, std::uint64_t seed) {
    std::uint64_t number = seed;
    for (std::uint64_t at = 0; at + 8 <= bytes; at += 8) {
        number = number * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
        std::memcpy(to + at, &number, 8);
    }
}

// A GPU's memory and as much of the host's. Each call waits until it is done.
class Side {
public:
    Side(int gpu, std::uint64_t bytes)
        : host(gpu, bytes), gpu_(gpu), memory_(gpu, bytes), stream_(gpu) {}

    PinnedMemory const host;

    [[nodiscard]] Address address() const { return reinterpret_cast<Address>(memory_.data()); }
    // From `host` to the GPU's memory, and back.
    void upload() {
        run([&] {
            return driver_.cuMemcpyHtoDAsync(address(), host.data(), host.bytes(), stream_.get());
        });
    }
    void download() {
        run([&] {
            return driver_.cuMemcpyDtoHAsync(host.data(), address(), host.bytes(), stream_.get());
        });
    }
    // This GPU copies as much between memories that it reaches.
    void copy(Address to, Address from) {
        run([&] { return driver_.cuMemcpyDtoDAsync(to, from, host.bytes(), stream_.get()); });
    }

private:
    template <class Call>
    void run(Call const& call) {
        {
            Current const here(driver_, gpu_);
            driver_.check(call(), kTry, gpu_);
        }
        stream_.wait(kTry);
    }

    Driver const& driver_ = Driver::get();
    int const gpu_;
    DeviceMemory const memory_;
    OwnStream const stream_;
};

// Memory on two GPUs, between which the first one copies.
class Trial {
public:
    Trial(int from, int to, std::uint64_t bytes) : near_(from, bytes), far_(to, bytes) {}

    // Whether bytes arrive as they were, and how fast; into the other GPU's memory or out of it.
    struct Outcome {
        bool right;
        double gbps;
    };
    Outcome write() { return copy(near_, far_, 1); }
    Outcome read() { return copy(far_, near_, 2); }

private:
    Outcome copy(Side& from, Side& to, std::uint64_t seed) {
        std::uint64_t const bytes = from.host.bytes();
        fill(from.host.data(), bytes, seed);
        from.upload();
        auto const start = std::chrono::steady_clock::now();
        near_.copy(to.address(), from.address());
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
        to.download();
        bool const right = std::memcmp(from.host.data(), to.host.data(), bytes) == 0;
        return {right, double(bytes) / took.count() / 1e9};
    }

    Side near_;
    Side far_;
};

bool is_right(int from, int to) {
    Trial trial(from, to, kTried);
    return trial.write().right && trial.read().right;
}

// Whether two that are connected get each other's bytes as they are.
bool work(int one, int other) {
    try {
        return is_right(one, other) && is_right(other, one);
    } catch (Error const& error) {
        if (error.code() != ErrorCode::OutOfMemory) throw;
        log::warn("cuda:{} and cuda:{} could not be tried: {}", one, other, error.what());
        return true;
    }
}

// Of pairs that were asked for; never destroyed.
struct Connections {
    std::mutex mutex;
    std::map<std::tuple<Driver const*, int, int>, bool> known;
    std::set<std::tuple<Driver const*, int, int>> proven;  // a GPU, and another process'

    static Connections& one() {
        static auto& made = *new Connections;
        return made;
    }
};

}  // namespace

bool reaches(int from, int to) {
    if (from == to) return true;
    Driver const& driver = Driver::get();
    int can = 0;
    driver.check(driver.cuDeviceCanAccessPeer(&can, from, to), "ask for a peer", from);
    return can != 0;
}

bool connect_peers(int one, int other) {
    Driver const& driver = Driver::get();
    auto const [low, high] = std::minmax(one, other);
    Connections& all = Connections::one();
    std::lock_guard const lock(all.mutex);
    auto const known = all.known.find({&driver, low, high});
    if (known != all.known.end()) return known->second;
    bool const forth = open_way(driver, low, high);
    bool const back = open_way(driver, high, low);
    bool there = forth && back;
    if (there && !work(low, high)) {
        log::warn(
            "cuda:{} and cuda:{} change bytes that they write to or read from each other's memory, "
            "though the driver says that they reach it (an IOMMU, or PCIe's ACS?); MGI does "
            "without. "
            "mgi topo --check tries all GPUs",
            low, high);
        close_way(driver, low, high);
        close_way(driver, high, low);
        there = false;
    }
    all.known.emplace(std::tuple(&driver, low, high), there);
    return there;
}

std::vector<int> connected_with(int gpu) {
    Driver const& driver = Driver::get();
    std::vector<int> all{gpu};
    Connections& connections = Connections::one();
    std::lock_guard const lock(connections.mutex);
    for (auto const& [pair, there] : connections.known) {
        auto const& [of, low, high] = pair;
        if (!there || of != &driver) continue;
        if (low == gpu) all.push_back(high);
        if (high == gpu) all.push_back(low);
    }
    return all;
}

void mark(DeviceMemory const& memory, std::uint64_t at, unsigned char byte) {
    Driver const& driver = Driver::get();
    OwnStream const stream(memory.gpu());
    {
        Current const here(driver, memory.gpu());
        driver.check(driver.cuMemsetD8Async(reinterpret_cast<Address>(memory.data() + at), byte,
                                            kProofBytes, stream.get()),
                     kTry, memory.gpu());
    }
    stream.wait(kTry);
}

bool proves(int gpu, ImportedMemory const& memory, Proof const& proof) {
    Connections& all = Connections::one();
    std::tuple const pair{&Driver::get(), gpu, memory.on()};
    {
        std::lock_guard const lock(all.mutex);
        if (all.proven.contains(pair)) return true;
    }
    Side side(gpu, kProofBytes);
    auto const address = [&](std::uint64_t at) {
        return reinterpret_cast<Address>(memory.data() + at);
    };
    auto const found_at = [&](std::uint64_t at) {
        side.copy(side.address(), address(at));
        side.download();
        return std::vector<char>(side.host.data(), side.host.data() + kProofBytes);
    };
    // Where it reads what is there it also writes.
    if (found_at(proof.marked) != std::vector<char>(kProofBytes, char(proof.byte))) return false;
    std::vector<char> bytes(kProofBytes);
    fill(bytes.data(), bytes.size(), 3);
    std::memcpy(side.host.data(), bytes.data(), bytes.size());
    side.upload();
    side.copy(address(proof.ours), side.address());
    if (found_at(proof.ours) != bytes) return false;
    std::lock_guard const lock(all.mutex);
    all.proven.insert(pair);
    return true;
}

std::vector<PeerCheck> check_peers(std::uint64_t bytes) {
    Driver const& driver = Driver::get();
    std::vector<PeerCheck> checks;
    for (int from = 0; from < driver.gpus(); ++from) {
        for (int to = 0; to < driver.gpus(); ++to) {
            if (from == to) continue;
            PeerCheck& check = checks.emplace_back(PeerCheck{from, to});
            check.reaches = open_way(driver, from, to);
            if (!check.reaches) continue;
            Trial trial(from, to, bytes);
            (void)trial.write();  // the first copy has more to do
            auto const write = trial.write();
            auto const read = trial.read();
            check.right = write.right && read.right;
            check.write_gbps = write.gbps;
            check.read_gbps = read.gbps;
        }
    }
    return checks;
}

}  // namespace mgi::gpu
