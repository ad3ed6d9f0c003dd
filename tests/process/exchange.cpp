#include "process/exchange.hpp"
#include "support/one_device.hpp"

#include <algorithm>
#include <cstdlib>

namespace mgi::test {

using device::Status;

namespace {

constexpr std::uint32_t kChannel = 5;
constexpr std::uint64_t kBatch = 256;

struct KeyValue {
    std::int64_t key;
    std::int64_t value;
};

}  // namespace

std::vector<std::string> Exchange::arguments() const {
    return {std::to_string(me),   std::to_string(members),       std::to_string(by_reference),
            std::to_string(rows), std::to_string(gone_limit_ms), std::to_string(forks)};
}

Exchange Exchange::from_arguments(char** arguments) {
    auto const number = [&](int index) { return std::strtoull(arguments[index], nullptr, 10); };
    Exchange exchange;
    exchange.me = std::uint32_t(number(0));
    exchange.members = std::uint32_t(number(1));
    exchange.by_reference = number(2) != 0;
    exchange.rows = number(3);
    exchange.gone_limit_ms = std::uint32_t(number(4));
    exchange.forks = number(5) != 0;
    return exchange;
}

Member::Member(Exchange const& exchange)
    : exchange_(exchange), runtime_(Runtime::local(one_device())) {
    do {
        endpoint_ = runtime_.create_endpoint("cpu");
    } while (endpoint_.id != exchange.me);
}

ChannelSpec Member::spec() const {
    ChannelSpec spec;
    for (std::uint32_t m = 0; m < exchange_.members; ++m) {
        spec.sources.push_back(m == exchange_.me ? endpoint_ : Endpoint{m, Endpoint::kElsewhere});
    }
    spec.destinations = spec.sources;
    spec.schema = Schema{{"key", int64()}, {"value", int64()}};
    spec.routing = Routing::partition("key");
    spec.options.name = "sales";
    spec.options.by_reference = exchange_.by_reference;
    spec.options.segment_rows = 128;
    spec.options.slots = spec.options.credits = 2;
    spec.options.max_groups = 1;
    spec.options.gone_limit = std::chrono::milliseconds(exchange_.gone_limit_ms);
    return spec;
}

PartMembers Member::members() const {
    PartMembers members;
    for (std::uint32_t m = 0; m < exchange_.members; ++m) members.source_member.push_back(m);
    members.destination_member = members.source_member;
    members.me = exchange_.me;
    members.count = exchange_.members;
    return members;
}

int Member::make() {
    auto made = runtime_.impl()->make_part(kChannel, spec(), members());
    channel_ = made.channel;
    return made.descriptor;
}

void Member::open(int descriptor) {
    auto const found = runtime_.impl()->open_part(kChannel, spec(), members(), descriptor);
    if (!found) throw Error(ErrorCode::OutOfMemory, "the part's address is taken");
    channel_ = *found;
}

Arrived Member::run() {
    Arrived arrived;
    {
        Sender sender = channel_.sender(endpoint_);
        Receiver receiver = channel_.receiver(endpoint_);
        std::vector<KeyValue> rows(kBatch);
        std::uint64_t sent = 0;
        bool flushed = false;
        bool ended = false;
        for (device::u32 idle = 0; !flushed || !ended;) {
            bool moved = false;
            std::uint64_t const left = exchange_.rows - sent;
            if (left != 0) {
                std::uint64_t const count = std::min(left, kBatch);
                for (std::uint64_t i = 0; i < count; ++i) {
                    rows[i] = {std::int64_t(sent + i),
                               std::int64_t(exchange_.me * exchange_.rows + sent + i)};
                }
                auto const now = std::uint64_t(
                    sender.try_send_rows(rows.data(), sizeof(KeyValue), std::int64_t(count)));
                moved = now != 0;
                sent += now;
            } else if (!flushed) {
                flushed = sender.try_flush();
            }
            RecordBatch batch;
            Status const status = ended ? Status::End : receiver.try_recv(batch);
            ended = status == Status::End;
            if (status == Status::Ok) {
                auto const* const values =
                    static_cast<std::int64_t const*>(batch.columns[1].values) +
                    batch.columns[1].offset;
                for (std::int64_t i = 0; i < batch.rows; ++i)
                    arrived.sum += std::uint64_t(values[i]);
                arrived.rows += std::uint64_t(batch.rows);
                moved = true;
            }
            idle = moved ? 0 : idle + 1;
            if (!moved) device::backoff(idle);
        }
    }
    runtime_.delete_channel(channel_);
    return arrived;
}

}  // namespace mgi::test
