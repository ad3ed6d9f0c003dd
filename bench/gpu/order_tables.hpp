/// \file
/// Lines and orders on GPUs, what operators make of them, and whether that is right: by sums that a row which is lost,
/// doubled, torn or in the wrong place changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mgi/gpu_operators.hpp>

#include "check.hpp"
#include "memory.hpp"
#include "orders.hpp"

namespace mgi::bench::orders {

using u8 = std::uint8_t;

/// Sums of rows, which do not depend on their order; `wrong` rows are no rows of the table, not their owner's, or not in order.
struct Seen {
    unsigned long long rows = 0;
    unsigned long long sum = 0;
    unsigned long long wrong = 0;
    /// Keys, of sorted rows.
    long long first = 0;
    long long last = 0;

    [[nodiscard]] bool same_as(Seen const& other) const {
        return rows == other.rows && sum == other.sum && wrong == other.wrong;
    }
    /// What lies behind it.
    void join(Seen const& other) {
        if (other.rows == 0) return;
        if (rows == 0) first = other.first;
        wrong += other.wrong + (rows != 0 && other.first < last ? 1 : 0);
        rows += other.rows;
        sum += other.sum;
        last = other.last;
    }
};

/// A call of an operator over all GPUs' tables.
struct Call {
    std::string name;
    OperatorOptions options;
    OperatorReport told;
};

/// How large tables are.
struct Size {
    u32 gpus = 1;
    u64 lines = 60'000'000;  ///< of each GPU

    [[nodiscard]] u64 orders() const { return lines / 4; }
    [[nodiscard]] u64 all_lines() const { return lines * gpus; }
    [[nodiscard]] u64 all_orders() const { return orders() * gpus; }
    /// What the keys of an operator's lines are: so many numbers.
    [[nodiscard]] u64 numbers_of(std::string const& name) const {
        return name == "group_by_4" ? 4 : all_orders();
    }
};

/// What a grid is told of the result at one GPU.
struct Part {
    u64 const* keys;
    u64 const* values;
    u64 const* thirds;  ///< payloads, counts, or null
    u64 rows;
    u32 gpu;
    u32 gpus;
    u64 all_lines;
    u64 numbers;  ///< of the keys
    bool owned;   ///< rows are where their keys' owner is
};

static __device__ void add(Seen* seen, u64 rows, u64 sum, u64 wrong) {
    atomicAdd(&seen->rows, rows);
    atomicAdd(&seen->sum, sum);
    if (wrong != 0) atomicAdd(&seen->wrong, wrong);
}

static __device__ bool is_owner(u64 key, Part const& part) {
    u64 const hash = device::murmur3_mix(key);
    return !part.owned || device::destination_of_hash(hash, part.gpus) == part.gpu;
}

/// Lines by their numbers, which are their values, with their orders' payloads where there are any.
static __global__ void see_lines(Part part, Seen* seen) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, sum = 0, wrong = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < part.rows; i += step) {
        u64 const line = part.values[i];
        u64 const number = part.keys[i] * kInverse;
        bool const right = line < part.all_lines && number == number_of_row(line, part.numbers) &&
                           (part.thirds == nullptr || part.thirds[i] == payload_of(number)) &&
                           is_owner(part.keys[i], part);
        wrong += right ? 0 : 1;
        sum += device::murmur3_mix(line + 1);
        ++rows;
    }
    add(seen, rows, sum, wrong);
}

/// Keys that are less than the one before.
static __global__ void see_order(Part part, Seen* seen) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    auto const* const keys = reinterpret_cast<long long const*>(part.keys);
    u64 wrong = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < part.rows; i += step) {
        wrong += i != 0 && keys[i] < keys[i - 1] ? 1 : 0;
        if (i == 0) seen->first = keys[i];
        if (i + 1 == part.rows) seen->last = keys[i];
    }
    add(seen, 0, 0, wrong);
}

/// Groups, weighed by their keys: so the sums and counts of each group are in it by themselves.
static __global__ void see_groups(Part part, Seen* seen) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, sum = 0, wrong = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < part.rows; i += step) {
        u64 const number = part.keys[i] * kInverse;
        sum += device::murmur3_mix(number) * (part.values[i] + (part.thirds[i] << 40));
        wrong += number < part.numbers && is_owner(part.keys[i], part) ? 0 : 1;
        ++rows;
    }
    add(seen, rows, sum, wrong);
}

/// What both must be, of so many lines. `there`: by number, set for those that have a line.
static __global__ void expect_rows(u64 lines, u64 numbers, u8* there, Seen* in_lines,
                                   Seen* in_groups) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0, by_line = 0, by_group = 0;
    for (u64 line = u64(blockIdx.x) * blockDim.x + threadIdx.x; line < lines; line += step) {
        u64 const number = number_of_row(line, numbers);
        by_line += device::murmur3_mix(line + 1);
        by_group += device::murmur3_mix(number) * (value_of_row(line) + (u64(1) << 40));
        there[number] = 1;
        ++rows;
    }
    add(in_lines, rows, by_line, 0);
    add(in_groups, 0, by_group, 0);
}

static __global__ void count_groups(u8 const* there, u64 numbers, Seen* in_groups) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    u64 rows = 0;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < numbers; i += step) {
        rows += there[i];
    }
    add(in_groups, rows, 0, 0);
}

/// A table of two columns on a GPU, and its memory.
struct Two {
    Two(u32 on, u64 rows) : gpu(on), first(rows), second(rows) {}
    [[nodiscard]] GpuTable table(std::string const& one, std::string const& other) const {
        return gpu_table(
            int(gpu), std::int64_t(first.size()),
            {{one, int64(), first.get(), nullptr, 0}, {other, int64(), second.get(), nullptr, 0}},
            nullptr);
    }
    u32 gpu;
    DeviceArray<u64> first;
    DeviceArray<u64> second;
};

/// The tables of some GPUs, and the operators over all GPUs' tables.
class Tables {
public:
    /// `own`: the GPUs whose tables are here.
    Tables(Size const& size, std::vector<u32> own) : size_(size), own_(std::move(own)) {
        for (u32 const g : own_) {
            On const on{int(g)};
            lines_.push_back(std::make_unique<Two>(g, size.lines));
            values_.push_back(std::make_unique<Two>(g, size.lines));
            few_.push_back(std::make_unique<Two>(g, size.lines));
            orders_.push_back(std::make_unique<Two>(g, size.orders()));
            Two& lines = *lines_.back();
            Two& values = *values_.back();
            Two& few = *few_.back();
            Two& orders = *orders_.back();
            make_lines<<<1024, 256>>>(lines.first.get(), lines.second.get(), g * size.lines,
                                      size.lines, size.all_orders(), true);
            make_lines<<<1024, 256>>>(values.first.get(), values.second.get(), g * size.lines,
                                      size.lines, size.all_orders(), false);
            make_lines<<<1024, 256>>>(few.first.get(), few.second.get(), g * size.lines, size.lines,
                                      size.numbers_of("group_by_4"), false);
            make_orders<<<1024, 256>>>(orders.first.get(), orders.second.get(), g * size.orders(),
                                       size.orders(), size.all_orders());
            check_launch("make rows");
            check(cudaDeviceSynchronize(), "make rows");
        }
    }

    /// By GPU; those of others have no rows.
    [[nodiscard]] std::vector<GpuTable> lines() const { return parts(lines_, "key", "line"); }
    [[nodiscard]] std::vector<GpuTable> values() const { return parts(values_, "key", "value"); }
    [[nodiscard]] std::vector<GpuTable> few() const { return parts(few_, "key", "value"); }
    [[nodiscard]] std::vector<GpuTable> orders() const { return parts(orders_, "id", "payload"); }

    /// Runs "exchange" of lines, "join" of lines and orders, "group_by" of values by their orders or "group_by_4" into four
    /// groups, or "sort" of lines, over all GPUs' tables.
    [[nodiscard]] std::vector<GpuTable> operate(Call& call, Runtime& runtime,
                                                std::vector<Endpoint> const& all) const {
        OperatorOptions const& options = call.options;
        OperatorReport* const told = &call.told;
        if (call.name == "exchange") return exchange(runtime, all, lines(), {"key"}, options, told);
        if (call.name == "join") {
            return join(runtime, all, lines(), orders(), spec(), options, told);
        }
        if (call.name == "sort") return sort(runtime, all, lines(), {{"key"}}, options, told);
        auto const parts = call.name == "group_by" ? values() : few();
        return group_by(runtime, all, parts, {"key"}, sums(), options, told);
    }
    static JoinSpec spec() { return {{"key"}, {"id"}, {"key", "line"}, {"payload"}}; }
    static std::vector<Aggregate> sums() {
        return {{AggregateFunction::Sum, "value", "sum"}, {AggregateFunction::Count, "", "count"}};
    }

    /// What a call's results at this one's GPUs are.
    [[nodiscard]] Seen seen_in(Call const& call, std::vector<GpuTable> const& results) const {
        bool const owned = call.name != "sort" && !call.told.at_one && size_.gpus != 1;
        Seen all;
        for (u32 const g : own_) {
            On const on{int(g)};
            DeviceArray<Seen> seen(1);
            check(cudaMemset(seen.get(), 0, sizeof(Seen)), "clear");
            Part const part{values_of(results[g], 0),
                            values_of(results[g], 1),
                            values_of(results[g], 2),
                            u64(results[g].rows),
                            g,
                            size_.gpus,
                            size_.all_lines(),
                            size_.numbers_of(call.name),
                            owned};
            call.name.starts_with("group_by") ? see_groups<<<1024, 256>>>(part, seen.get())
                                              : see_lines<<<1024, 256>>>(part, seen.get());
            if (call.name == "sort") see_order<<<1024, 256>>>(part, seen.get());
            check_launch("look at rows");
            Seen mine;
            check(cudaMemcpy(&mine, seen.get(), sizeof(Seen), cudaMemcpyDeviceToHost), "read");
            all.join(mine);
        }
        return all;
    }

private:
    using All = std::vector<std::unique_ptr<Two>>;
    [[nodiscard]] std::vector<GpuTable> parts(All const& all, std::string const& one,
                                              std::string const& other) const {
        std::vector<GpuTable> parts(size_.gpus);
        for (auto const& two : all) parts[two->gpu] = two->table(one, other);
        return parts;
    }
    static u64 const* values_of(GpuTable const& table, std::size_t column) {
        if (column >= table.columns.size()) return nullptr;
        return static_cast<u64 const*>(table.columns[column].values);
    }

    Size const size_;
    std::vector<u32> const own_;
    All lines_;
    All values_;
    All few_;
    All orders_;
};

/// What results must be, of all GPUs.
class Expected {
public:
    /// Of operators over keys like those of `name`.
    Expected(Size const& size, std::string const& name) {
        u64 const numbers = size.numbers_of(name);
        DeviceArray<u8> there(numbers);
        DeviceArray<Seen> seen(2);
        check(cudaMemset(there.get(), 0, there.bytes()), "clear");
        check(cudaMemset(seen.get(), 0, seen.bytes()), "clear");
        expect_rows<<<1024, 256>>>(size.all_lines(), numbers, there.get(), seen.get(),
                                   seen.get() + 1);
        count_groups<<<1024, 256>>>(there.get(), numbers, seen.get() + 1);
        check(cudaMemcpy(both_, seen.get(), sizeof(both_), cudaMemcpyDeviceToHost), "read");
    }
    [[nodiscard]] Seen const& of(std::string const& name) const {
        return both_[name.starts_with("group_by") ? 1 : 0];
    }

private:
    Seen both_[2];
};

}  // namespace mgi::bench::orders
