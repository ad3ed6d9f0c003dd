// Raw messages on channels without a schema.
#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "support/expect_error.hpp"
#include "support/flow.hpp"

namespace mgi::test {
namespace {

using device::Group;
using device::ReceivedBatch;
using device::SendResult;
using device::Shared;
using device::Status;

struct Mailbox {
    std::mutex mutex;
    std::vector<std::string> got;
};

/// Sends `messages` (to the endpoint with id `to`, if it is not kNone) and receives.
struct MessageKernel {
    device::Channel channel;
    std::vector<std::string> const* messages;
    std::uint32_t to;
    Mailbox* box;

    void operator()(Group const& group, Shared& shared) const {
        std::size_t sent = 0;
        bool flushed = !channel.is_source();
        bool ended = !channel.is_destination();
        for (device::u32 idle = 0; !(flushed && ended);) {
            if (!flushed && sent < messages->size()) {
                std::string const& text = (*messages)[sent];
                SendResult const result =
                    to == device::Channel::kNone
                        ? channel.send_bytes(group, shared, text.data(), text.size())
                        : channel.send_bytes_to(group, shared, to, text.data(), text.size());
                ASSERT_NE(result.status, Status::Error);
                sent += result.rows;
            } else if (!flushed) {
                flushed = channel.flush(group, shared) == Status::Ok;
            }
            ReceivedBatch batch;
            Status const status = ended ? Status::Pending : channel.recv(group, shared, batch);
            ASSERT_NE(status, Status::Error);
            ended = ended || status == Status::End;
            if (status == Status::Ok) {
                std::lock_guard const lock(box->mutex);
                for (std::uint32_t i = group.thread; i < batch.rows; i += group.threads) {
                    device::Text const text = batch.text(0, i);
                    box->got.emplace_back(text.data, text.size);
                }
                idle = 0;
            }
            if (status == Status::Ok) channel.release(group, shared, batch);
            if (status == Status::Pending) device::backoff(idle++);
        }
    }
};

class Messages : public ::testing::TestWithParam<bool> {
protected:
    Channel open(Routing const& routing, std::uint32_t endpoints) {
        for (std::uint32_t i = 0; i < endpoints; ++i)
            ends_.push_back(runtime_.create_endpoint("cpu"));
        ChannelSpec spec;
        spec.sources = spec.destinations = ends_;
        spec.routing = routing;
        spec.options.by_reference = GetParam();
        spec.options.segment_rows = 8;
        spec.options.slots = 1;
        spec.options.credits = 1;
        spec.options.text_bytes_per_row = 128;
        return runtime_.create_channel(spec);
    }
    static std::vector<std::string> some_messages(std::size_t count, std::uint64_t seed) {
        Random random(seed);
        std::vector<std::string> messages;
        for (std::size_t i = 0; i < count; ++i) {
            std::uint64_t const size = random.one_in(20) ? 1024 : random.below(100);
            messages.push_back(std::to_string(i) + std::string(size > 4 ? size - 4 : 0, '\0'));
        }
        return messages;
    }
    Runtime runtime_ = Runtime::local();
    std::vector<Endpoint> ends_;
};

TEST_P(Messages, BroadcastReachesEverybody) {
    Channel const channel = open(Routing::broadcast(), 3);
    auto const messages = some_messages(100, 1);
    std::vector<Mailbox> boxes(3);
    std::vector<Launch> launches;
    LaunchOptions options;
    options.groups = 2;
    options.threads = 2;
    for (std::size_t e = 0; e < ends_.size(); ++e) {
        launches.push_back(runtime_.launch(
            ends_[e], options,
            MessageKernel{channel.on(ends_[e]), &messages, device::Channel::kNone, &boxes[e]}));
    }
    wait_for(launches, channel);
    std::vector<std::string> expected;
    for (int i = 0; i < 6; ++i) {
        expected.insert(expected.end(), messages.begin(), messages.end());
    }
    for (auto& box : boxes) {
        std::sort(box.got.begin(), box.got.end());
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(box.got, expected);
    }
}

TEST_P(Messages, TheOneNamedIsReached) {
    for (Routing const& routing : {Routing::direct(), Routing::broadcast()}) {
        ends_.clear();
        Channel const channel = open(routing, 3);
        auto const messages = some_messages(150, 2);
        std::vector<Mailbox> boxes(3);
        std::vector<Launch> launches;
        for (std::size_t e = 0; e < ends_.size(); ++e) {
            std::uint32_t const next = ends_[(e + 1) % 3].id;
            launches.push_back(runtime_.launch(
                ends_[e], {}, MessageKernel{channel.on(ends_[e]), &messages, next, &boxes[e]}));
        }
        wait_for(launches, channel);
        for (auto& box : boxes) EXPECT_EQ(box.got, messages) << "one lane, one group: as sent";
    }
}

TEST_P(Messages, FromHostCode) {
    Channel const channel = open(Routing::direct(), 2);
    Sender sender = channel.sender(ends_[0]);
    Receiver receiver = channel.receiver(ends_[1]);
    EXPECT_TRUE(sender.try_send_bytes("hello", 5, ends_[1]));
    EXPECT_TRUE(sender.try_send_bytes(nullptr, 0, ends_[1]));
    sender.push();
    auto const batch = receiver.recv(std::chrono::seconds(20));
    ASSERT_TRUE(batch.has_value());
    ASSERT_EQ(batch->rows, 2);
    EXPECT_EQ(batch->string_at(0, 0), "hello");
    EXPECT_EQ(batch->string_at(0, 1), "");
    EXPECT_EQ(batch->schema[0].name, "message");
    expect_error(ErrorCode::Refused, {"1024"}, [&] {
        std::string const large(1025, 'x');
        sender.try_send_bytes(large.data(), large.size(), ends_[1]);
    });
    std::string const whole(1024, 'x');
    EXPECT_TRUE(sender.try_send_bytes(whole.data(), whole.size(), ends_[1]));
}

INSTANTIATE_TEST_SUITE_P(Transfer, Messages, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
