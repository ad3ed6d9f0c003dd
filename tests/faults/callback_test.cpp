// Whatever the user supplies may fail: kernels and what they capture, Arrow streams and their release.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <stdexcept>

#include <mgi/arrow_abi.hpp>
#include <mgi/runtime.hpp>

#include "support/expect_error.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"
#include "support/tables.hpp"

namespace mgi::faults {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::Shared;
using device::Status;
using test::KeyValue;

constexpr auto kLaunchLimit = 30s;

// What a kernel was doing when it threw.
enum class When { AtOnce, AfterSend, AfterFlush, WithABatch, AfterTheEnd };

struct ThrowingKernel {
    When when;
    std::uint32_t thread;

    void maybe(When here, Group const& group) const {
        if (here == when && group.block == 0 && group.thread == thread) throw std::string("oh no");
    }
    void operator()(Group const& group, Shared& shared, device::Channel const& channel) const {
        maybe(When::AtOnce, group);
        std::vector<KeyValue> const rows(50, KeyValue{1, 2});
        std::uint64_t sent = 0;
        bool flushed = false;
        for (device::u32 round = 0;; ++round) {
            if (sent < rows.size()) {
                sent +=
                    channel.send_rows(group, shared, rows.data() + sent, rows.size() - sent).rows;
                maybe(When::AfterSend, group);
            } else if (!flushed) {
                flushed = channel.flush(group, shared) == Status::Ok;
                if (flushed) maybe(When::AfterFlush, group);
            }
            device::ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Ok) {
                maybe(When::WithABatch, group);
                channel.release(group, shared, batch);
            } else if (status != Status::Pending) {
                break;
            }
            device::backoff(round % 64);
        }
        // The end may come before the flush is seen to be done.
        if (!flushed && channel.flush_wait(group, shared) == Status::Ok) {
            maybe(When::AfterFlush, group);
        }
        maybe(When::AfterTheEnd, group);
    }
};

class KernelThatThrows : public ::testing::TestWithParam<When> {};

// Every other launch ends within the limit; the one that threw tells its exception; the runtime is as
// good as before.
TEST_P(KernelThatThrows, EndsEverybody) {
    RuntimeOptions options;
    options.cpu_devices = 1;
    options.pin = false;
    Runtime runtime = Runtime::local(options);
    std::vector<Endpoint> const endpoints{runtime.create_endpoint("cpu"),
                                          runtime.create_endpoint("cpu")};
    for (int turn = 0; turn < 8; ++turn) {
        ChannelSpec spec;
        spec.sources = spec.destinations = endpoints;
        spec.schema = test::numbered_schema();
        spec.routing = Routing::balance();
        spec.options.by_reference = turn % 2 == 0;
        spec.options.segment_rows = 4;
        spec.options.slots = spec.options.credits = 1;
        spec.options.max_groups = 2;
        spec.options.gone_limit = 1000ms;
        Channel const channel = runtime.create_channel(spec);
        std::vector<device::Channel> const at{channel.on(endpoints[0]), channel.on(endpoints[1])};
        LaunchOptions shape;
        shape.groups = 2;
        shape.threads = 2;
        ThrowingKernel const bad{GetParam(), static_cast<std::uint32_t>(turn / 2 % 2)};
        ThrowingKernel const good{GetParam(), 7};
        Launch thrower = runtime.launch(endpoints[0], shape, bad, at[0]);
        Launch other = runtime.launch(endpoints[1], shape, good, at[1]);
        bool threw = false;
        try {
            thrower.wait(kLaunchLimit);
        } catch (std::string const& text) {
            EXPECT_EQ(text, "oh no");
            threw = true;
        }
        // Group 0 may have had no batch in its hands before all were taken by others.
        EXPECT_TRUE(threw || GetParam() == When::WithABatch);
        other.wait(kLaunchLimit);
        runtime.delete_channel(channel);
    }
    test::FlowSetup flow;
    flow.fill(50);
    test::run_and_check(flow);
}

INSTANTIATE_TEST_SUITE_P(When, KernelThatThrows,
                         ::testing::Values(When::AtOnce, When::AfterSend, When::AfterFlush,
                                           When::WithABatch, When::AfterTheEnd));

// A kernel's argument that cannot be copied any more, on the group's thread.
struct Reluctant {
    std::shared_ptr<std::atomic<int>> copies = std::make_shared<std::atomic<int>>(0);
    Reluctant() = default;
    Reluctant(Reluctant const& other) : copies(other.copies) {
        if (copies->fetch_add(1) >= 40) throw std::runtime_error("no more copies");
    }
    Reluctant& operator=(Reluctant const&) = delete;
    ~Reluctant() = default;
};

TEST(Callback, ArgumentThatThrowsWhenCopied) {
    Runtime runtime = Runtime::local();
    Endpoint const endpoint = runtime.create_endpoint("cpu");
    Reluctant const argument;
    bool threw = false;
    for (int i = 0; i < 60 && !threw; ++i) {
        try {
            runtime.launch(
                       endpoint, {}, [](Group const&, Shared&, Reluctant const&) {}, argument)
                .wait(kLaunchLimit);
        } catch (std::runtime_error const& error) {
            EXPECT_STREQ(error.what(), "no more copies");
            threw = true;
        }
    }
    EXPECT_TRUE(threw);
}

// A stream of three batches that fails at one of its callbacks, or throws out of it.
struct BadStream {
    int fail_at = 0;  ///< get_schema is 0, the first get_next 1
    bool throws = false;
    bool message = true;
    int calls = 0;
    int released = 0;

    int next_call() {
        if (calls++ != fail_at) return 0;
        if (throws) throw std::runtime_error("a stream's own exception");
        return EIO;
    }
    static BadStream& of(ArrowArrayStream* stream) {
        return *static_cast<BadStream*>(stream->private_data);
    }
    void open(ArrowArrayStream* out) {
        *out = {};
        out->private_data = this;
        out->get_schema = [](ArrowArrayStream* stream, ArrowSchema* schema) {
            if (int const code = of(stream).next_call()) return code;
            export_schema(test::numbered_schema(), schema);
            return 0;
        };
        out->get_next = [](ArrowArrayStream* stream, ArrowArray* array) {
            *array = {};
            if (int const code = of(stream).next_call()) return code;
            if (of(stream).calls == 5) return 0;
            export_batch(test::make_batch(test::numbered_schema(), test::numbered_rows(10, 3)),
                         array);
            return 0;
        };
        out->get_last_error = [](ArrowArrayStream* stream) -> char const* {
            return of(stream).message ? "the disk is gone" : nullptr;
        };
        out->release = [](ArrowArrayStream* stream) {
            ++of(stream).released;
            stream->release = nullptr;
        };
    }
};

TEST(Callback, ArrowStreamThatFails) {
    for (int at = 0; at < 5; ++at) {
        for (bool const message : {true, false}) {
            BadStream bad;
            bad.fail_at = at;
            bad.message = message;
            ArrowArrayStream stream;
            bad.open(&stream);
            try {
                (void)import_stream(&stream);
                ADD_FAILURE() << "nothing was thrown at call " << at;
            } catch (Error const& error) {
                EXPECT_EQ(std::string(error.what()).find("the disk is gone") != std::string::npos,
                          message)
                    << error.what();
            }
            EXPECT_EQ(bad.released, 1);
            EXPECT_EQ(stream.release, nullptr);
        }
    }
}

TEST(Callback, ArrowStreamThatThrows) {
    for (int at = 0; at < 5; ++at) {
        BadStream bad;
        bad.fail_at = at;
        bad.throws = true;
        ArrowArrayStream stream;
        bad.open(&stream);
        EXPECT_THROW((void)import_stream(&stream), std::runtime_error);
        EXPECT_EQ(bad.released, 1);
    }
}

}  // namespace
}  // namespace mgi::faults
