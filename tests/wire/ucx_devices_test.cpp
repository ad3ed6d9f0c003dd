// What UCX calls the devices of an interface, and streams whose other end does not answer.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <vector>

#include "support/temporary_folder.hpp"
#include "transport/ucx/ucx.hpp"

namespace mgi::test {
namespace {

TEST(UcxDevices, AnInterfaceWithoutRdmaIsItself) {
    TemporaryFolder const net;
    EXPECT_EQ(transport::ucx::devices_of("eth0", net.file("")), "eth0");
}

TEST(UcxDevices, RdmaDevicesComeFirstWithTheirPort) {
    TemporaryFolder const net;
    std::filesystem::create_directories(net.file("ib0/device/infiniband/mlx5_1"));
    std::filesystem::create_directories(net.file("ib0/device/infiniband/mlx5_0"));
    std::ofstream(net.file("ib0/dev_port")) << "1\n";
    EXPECT_EQ(transport::ucx::devices_of("ib0", net.file("")), "mlx5_0:2,mlx5_1:2,ib0");
}

// As of a process that is stopped behind the handshake. UCX has aborted the process for less.
TEST(UcxStreams, OneThatNobodyAnswersEnds) {
    if (!MGI_TEST_UCX) GTEST_SKIP() << "built without UCX";
    transport::wire::Address const here("127.0.0.1:0");
    auto const open = transport::ucx::open();
    std::vector<char> bytes(1 << 20, 'x');
    for (int const progress : {0, 1, 3, 10, 100}) {
        for (bool const writes : {false, true}) {
            auto const far = open(here);
            auto const near = open(here);
            auto other = far->make_stream();
            auto stream = near->make_stream();
            stream->join(other->card());
            std::array<iovec, 1> const piece{{{bytes.data(), bytes.size()}}};
            EXPECT_EQ(writes ? stream->write(piece) : bytes.size(), bytes.size());
            for (int i = 0; i < progress; ++i) near->progress();
            stream.reset();
            for (int i = 0; i < 100; ++i) {
                far->progress();
                near->progress();
            }
            EXPECT_NE(near->make_stream(), nullptr);
        }
    }
}

}  // namespace
}  // namespace mgi::test
