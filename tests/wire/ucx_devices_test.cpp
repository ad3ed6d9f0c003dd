// What UCX calls the devices of an interface.
#include <gtest/gtest.h>

#include <fstream>

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

}  // namespace
}  // namespace mgi::test
