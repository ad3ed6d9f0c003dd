// The smallest whole program: two endpoints exchange rows by key.
#include <cstdio>
#include <mgi/runtime.hpp>
#include <vector>

struct Row {
    std::int64_t key, value;
};

int main() {
    auto rt = mgi::Runtime::local();
    std::vector<mgi::Endpoint> ends{rt.create_endpoint("cpu"), rt.create_endpoint("cpu")};
    mgi::Schema const schema{{"key", mgi::int64()}, {"value", mgi::int64()}};
    auto channel = rt.create_channel({ends, ends, schema, mgi::Routing::partition("key"), {}});

    for (std::int64_t e = 0; e < 2; ++e) {
        std::vector<Row> rows(1000);
        for (std::int64_t i = 0; i < 1000; ++i) rows[i] = {i, 1000 * e + i};
        auto sender = channel.sender(ends[e]);
        for (std::int64_t sent = 0; sent < 1000;) {
            sent += sender.try_send_rows(&rows[sent], sizeof(Row), 1000 - sent);
        }
        sender.flush();
    }
    for (mgi::Endpoint const end : ends) {
        long rows = 0;
        auto receiver = channel.receiver(end);
        while (auto const batch = receiver.recv()) rows += batch->rows;
        std::printf("endpoint %u got %ld rows\n", end.id, rows);
    }
}
