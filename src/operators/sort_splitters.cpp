#include "operators/sort_splitters.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include <mgi/device/hash.hpp>

#include "core/ordering.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

namespace {

// Samples for each range, and of all: with a thousand of them a range has a tenth more than its share at most, nearly
// always.
constexpr u64 kSamplesOfRange = 1024;
constexpr u64 kMostSamples = u64{1} << 17;
// What a process says of its samples: a gather takes so much from each with little ado.
constexpr u64 kMostSaid = u64{48} << 10;
// Bytes of a sample's text: what begins like it lies close, and any value will do for a splitter.
constexpr u32 kLongestAlone = 4096;
constexpr u32 kLongestSaid = 64;

u64 bytes_of_sample(std::vector<device::KeyOrder> const& keys) {
    u64 bytes = sizeof(double);
    for (device::KeyOrder const& key : keys) {
        bool const long_one =
            key.kind == device::OrderKind::Bytes || key.kind == device::OrderKind::Text;
        bytes += 5 * sizeof(u64) + (long_one ? kLongestSaid : 0);
    }
    return bytes;
}

// Adds a part's samples.
void sample_part(Table const& part, std::vector<SortKey> const& order, u64 count, u32 longest,
                 Samples& to) {
    u64 const rows = u64(part.rows());
    u64 next = 0;
    u64 begin = 0;
    for (RecordBatch const& batch : part.batches) {
        u64 const end = begin + u64(batch.rows);
        std::optional<OrderedRows> ordered;
        for (; next != count; ++next) {
            u64 const at = sampled_row(rows, count, next);
            if (at >= end) break;
            if (!ordered) ordered.emplace("sort", order, batch);
            ordered->append(at - begin, longest, to.rows);
            to.weights.push_back(double(rows) / double(count));
        }
        begin = end;
    }
}

std::string say(Samples const& samples) {
    MessageWriter words;
    words.number(samples.weights.size());
    for (double const weight : samples.weights) words.number(std::bit_cast<u64>(weight));
    for (device::SplitterValue const& value : samples.rows.values) {
        words.number(value.word).number(value.low).number(value.high).number(value.begin);
        words.number(value.size);
    }
    return words.text(samples.rows.bytes).take();
}

// Adds what a process says.
void hear(std::string const& words, std::size_t keys, Samples& all) {
    MessageReader from(words);
    u64 const count = from.number(kMostSamples * 2);
    for (u64 i = 0; i < count; ++i) {
        double const weight = std::bit_cast<double>(from.number());
        if (!(weight >= 1)) MessageReader::refuse();
        all.weights.push_back(weight);
    }
    std::size_t const first = all.rows.values.size();
    for (u64 i = 0; i < count * keys; ++i) {
        device::SplitterValue value;
        value.word = from.number();
        value.low = from.number();
        value.high = from.number();
        value.begin = u32(from.number(UINT32_MAX));
        value.size = u32(from.number(UINT32_MAX));
        all.rows.values.push_back(value);
    }
    std::string_view const bytes = from.text();
    u64 const before = all.rows.bytes.size();
    if (before + bytes.size() > UINT32_MAX) MessageReader::refuse();
    for (std::size_t v = first; v < all.rows.values.size(); ++v) {
        device::SplitterValue& value = all.rows.values[v];
        if (value.size == device::SplitterValue::kNull) continue;
        if (u64{value.begin} + value.size > bytes.size()) MessageReader::refuse();
        value.begin += u32(before);
    }
    all.rows.bytes.append(bytes);
}

// Adds one of some rows to the splitters.
void add(Splitters const& rows, std::size_t row, Splitters& to) {
    std::size_t const keys = to.types.size();
    for (std::size_t k = 0; k < keys; ++k) {
        device::SplitterValue value = rows.values[row * keys + k];
        if (value.size != device::SplitterValue::kNull) {
            u32 const begin = u32(to.bytes.size());
            to.bytes.append(rows.bytes, value.begin, value.size);
            value.begin = begin;
        }
        to.values.push_back(value);
    }
}

// Rows that equal a splitter come behind it, so a run of equal samples has all of its rows on one side: that sample before or
// behind the run of `next`, ahead of which `before` rows lie, which is nearer to `share`.
std::size_t nearest(device::RangeTable const& table, Samples const& samples,
                    std::vector<u32> const& sorted, std::size_t next, double before, double share) {
    auto const equal = [&](std::size_t at) { return table.compare(sorted[at], sorted[next]) == 0; };
    double begin = before;
    for (std::size_t at = next; at != 0 && equal(at - 1); --at) {
        begin -= samples.weights[sorted[at - 1]];
    }
    double end = before;
    std::size_t behind = next;
    for (; behind != sorted.size() && equal(behind); ++behind) {
        end += samples.weights[sorted[behind]];
    }
    return behind != sorted.size() && end - share < share - begin ? behind : next;
}

}  // namespace

u64 sampled_row(u64 rows, u64 count, u64 sample) {
    u64 const first = u64(u128{rows} * sample / count);
    u64 const last = u64(u128{rows} * (sample + 1) / count);
    return first + device::murmur3_mix(sample + 1) % (last - first);
}

Sampling plan_samples(std::vector<device::KeyOrder> const& keys, std::vector<u64> const& own_rows,
                      u64 all_rows, std::size_t ranges, bool alone) {
    u64 const wanted = std::min(kMostSamples, kSamplesOfRange * ranges);
    u64 const sum = std::accumulate(own_rows.begin(), own_rows.end(), u64{0});
    Sampling plan;
    plan.longest = alone ? kLongestAlone : kLongestSaid;
    for (u64 const rows : own_rows) {
        plan.counts.push_back(0);
        if (rows == 0) continue;
        u64 const share = u64(u128{wanted} * rows / all_rows) + 1;
        u64 const said = u64(u128{kMostSaid / bytes_of_sample(keys)} * rows / sum);
        u64 const most = alone ? share : std::min(share, std::max<u64>(said, 1));
        plan.counts.back() = std::min(rows, most);
    }
    return plan;
}

Splitters agree_on_splitters(std::vector<device::KeyOrder> const& keys, Samples const& own,
                             std::size_t ranges, Gather const& gather) {
    Splitters chosen;
    chosen.types = own.rows.types;
    Samples all;
    all.rows.types = chosen.types;
    for (std::string const& words : gather(say(own))) hear(words, keys.size(), all);

    std::size_t const wanted = ranges - 1;
    if (all.weights.empty()) {  // of no rows any will do
        chosen.values.resize(wanted * keys.size());
        return chosen;
    }
    auto const table = range_table(keys, all.rows);
    std::vector<u32> sorted(all.weights.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(), [&](u32 a, u32 b) { return table.compare(a, b) < 0; });
    double const rows = std::accumulate(all.weights.begin(), all.weights.end(), 0.0);
    double before = 0;
    std::size_t next = 0;
    for (std::size_t s = 1; s <= wanted; ++s) {
        double const share = rows * double(s) / double(wanted + 1);
        while (next + 1 < sorted.size() && before + all.weights[sorted[next]] <= share) {
            before += all.weights[sorted[next++]];
        }
        add(all.rows, sorted[nearest(table, all, sorted, next, before, share)], chosen);
    }
    return chosen;
}

Splitters choose_splitters(Conversation& talk, Input const& input,
                           std::vector<SortKey> const& order, std::size_t ranges) {
    auto const keys = key_orders("sort", order, input.schema());
    Samples own;
    for (auto const& key : keys) own.rows.types.push_back(input.schema()[key.column].type);
    if (ranges == 1) return own.rows;
    std::vector<u64> rows;
    for (std::size_t p = 0; p < input.parts(); ++p) rows.push_back(u64(input.part(p).rows()));
    Sampling const plan = plan_samples(keys, rows, input.rows(), ranges, talk.alone());
    for (std::size_t p = 0; p < input.parts(); ++p) {
        sample_part(input.part(p), order, plan.counts[p], plan.longest, own);
    }
    return agree_on_splitters(keys, own, ranges,
                              [&talk](std::string const& words) { return talk.gather(words); });
}

Splitters some_splitters(Splitters const& all, std::size_t first, std::size_t step) {
    Splitters some;
    some.types = all.types;
    for (std::size_t s = first; s < all.count(); s += step) add(all, s, some);
    return some;
}

}  // namespace mgi::operators
