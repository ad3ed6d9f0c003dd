// What programs do over UCX: a process for each GPU partitions its rows in two passes, says how many each other one is to get,
// sends them by tagged messages from GPU memory to GPU memory, and reads what has come.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <vector>

#include "contest.hpp"
#include "partitioned.hpp"
#include "team.hpp"
#include "ucx.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u32 kCount = 0;  // the tag of how many rows come; those of their runs follow

std::string hex_of(std::string const& bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (char const c : bytes) {
        hex += kDigits[u32(static_cast<unsigned char>(c)) >> 4];
        hex += kDigits[u32(c) & 15];
    }
    return hex;
}

std::string bytes_of(std::string const& hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

/// Of a process.
class Side {
public:
    Side(u32 rank, Load const& load, Ucx& ucx)
        : rank_(rank),
          load_(load),
          ucx_(ucx),
          gpu_(rank, load),
          wanted_(peers::wanted_at(load, rank)),
          rows_(load, gpu_, wanted_.rows),
          to_(load.gpus),
          from_(load.gpus) {}

    /// Nanoseconds of the clock: start, all arrived, all read.
    std::string run() {
        auto const start = Clock::now();
        rows_.start_partition();
        rows_.end_partition();
        say_counts();
        send_rows();
        u64 at = 0;
        for (u32 from = 0; load_.receives(rank_) && from < load_.sources(); ++from) {
            receive_rows(from, at);
            at += from_[from];
        }
        ucx_.wait();
        check(cudaStreamSynchronize(rows_.stream()), "wait for own rows");
        auto const arrived = Clock::now();
        rows_.start_read();
        check(cudaStreamSynchronize(rows_.stream()), "read what arrived");
        auto const read = Clock::now();
        std::ostringstream out;
        for (auto const time : {start, arrived, read})
            out << time.time_since_epoch().count() << ' ';
        return out.str();
    }
    [[nodiscard]] bool exact() const { return rows_.has(wanted_); }

private:
    [[nodiscard]] u32 part_for(u32 gpu) const {
        return load_.to_all() ? 0 : gpu - load_.destination(0);
    }
    void say_counts() {
        for (u32 gpu = 0; gpu < load_.gpus; ++gpu) {
            if (load_.sends(rank_) && load_.receives(gpu)) {
                to_[gpu] = rows_.rows_for(part_for(gpu));
                if (gpu != rank_) ucx_.send(gpu, rank_, kCount, &to_[gpu], sizeof(u64));
            }
            if (load_.receives(rank_) && load_.sends(gpu) && gpu != rank_) {
                ucx_.receive(gpu, kCount, &from_[gpu], sizeof(u64));
            }
        }
        ucx_.wait();
        from_[rank_] = to_[rank_];
    }
    void send_rows() {
        for (u32 k = 1; load_.sends(rank_) && k < load_.gpus; ++k) {
            u32 const to = (rank_ + k) % load_.gpus;
            if (!load_.receives(to)) continue;
            u32 tag = kCount;
            rows_.each_run_for(part_for(to), [&](u64 const* words, u64 bytes) {
                ucx_.send(to, rank_, ++tag, words, bytes);
            });
        }
    }
    /// To where they belong behind others' rows; its own by a copy.
    void receive_rows(u32 from, u64 at) {
        std::vector<u64 const*> own;
        if (from == rank_) {
            rows_.each_run_for(part_for(rank_),
                               [&](u64 const* words, u64) { own.push_back(words); });
        }
        u32 tag = kCount;
        rows_.each_run_from(at, from_[from], [&](u64* words, u64 bytes) {
            ++tag;
            if (from != rank_) return ucx_.receive(from, tag, words, bytes);
            check(cudaMemcpyAsync(words, own[tag - 1], bytes, cudaMemcpyDeviceToDevice,
                                  rows_.stream()),
                  "copy own rows");
        });
    }

    u32 const rank_;
    Load const load_;
    Ucx& ucx_;
    peers::Gpu const gpu_;
    Sums const wanted_;
    Partitioned rows_;
    std::vector<u64> to_;  ///< rows, by rank
    std::vector<u64> from_;
};

class ByUcx final : public Contestant {
public:
    explicit ByUcx(Load const& load) : team_("ucx", load) {
        std::string all = "connect";
        for (std::string const& address : team_.hear()) all += ' ' + address;
        team_.say(all);
        (void)team_.hear();
        (void)run();
        for (std::string const& said : tell("check")) exact_ = exact_ && said == "1";
    }
    Turn run() override {
        long long first = 0;
        long long arrived = 0;
        long long read = 0;
        for (std::string const& line : tell("run")) {
            std::istringstream in(line);
            long long start = 0;
            long long came = 0;
            long long done = 0;
            in >> start >> came >> done;
            require(bool(in), "a process did not say what its run took");
            first = first == 0 ? start : std::min(first, start);
            arrived = std::max(arrived, came);
            read = std::max(read, done);
        }
        return {double(arrived - first) / 1e6, double(read - first) / 1e6};
    }
    bool exact() override { return exact_; }

private:
    std::vector<std::string> tell(char const* what) {
        team_.say(what);
        return team_.hear();
    }

    Team team_;
    bool exact_ = true;
};

}  // namespace

std::unique_ptr<Contestant> by_ucx(Load const& load) {
    return std::make_unique<ByUcx>(load);
}

void exchange_by_ucx(u32 rank, Load const& load, Leader& leader) {
    On const on{int(rank)};
    check(cudaFree(nullptr), "make a context");  // UCX looks for it
    Ucx ucx;
    leader.say(hex_of(ucx.address()));
    std::string line;
    if (!leader.hear(line)) return;
    std::istringstream in(line);
    std::string word;
    in >> word;
    std::vector<std::string> addresses;
    while (in >> word) addresses.push_back(bytes_of(word));
    ucx.connect(addresses);
    Side side(rank, load, ucx);
    leader.say("connected");
    while (leader.hear(line)) leader.say(line == "check" ? (side.exact() ? "1" : "0") : side.run());
}

}  // namespace mgi::bench
