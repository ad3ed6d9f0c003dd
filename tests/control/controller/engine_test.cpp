// The engine when it cannot go on.
#include "control/controller/engine.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <mgi/runtime.hpp>
#include <new>
#include <stdexcept>

#include "control/controller/served.hpp"

namespace mgi::control::test {
namespace {

/// Cannot carry out what it is asked to.
class Broken final : public Outlet {
public:
    void carry_out(Send const&) override { throw std::bad_alloc(); }
    void carry_out(Close const&) override { throw std::bad_alloc(); }
    void carry_out(Answer const&) override { throw std::bad_alloc(); }
};

struct ControlEngineDeathTest : ::testing::Test {
    ControlEngineDeathTest() {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        set_log_level("error");
    }
    MemoryStorage storage;
    Broken outlet;
    Engine engine{Settings{}, storage, make_plans(), outlet};
};

TEST_F(ControlEngineDeathTest, HalfAnEventEndsTheProgram) {
    EXPECT_DEATH(
        engine.apply([](Cluster&, Now, Effects&) { throw std::runtime_error("half an event"); }),
        "cannot go on.*half an event");
}

TEST_F(ControlEngineDeathTest, AnEffectThatIsNotCarriedOutEndsTheProgram) {
    EXPECT_DEATH(engine.apply([](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_opened(1, now, effects);
        AgentMessage unregistered;
        cluster.session_message(1, unregistered, now, effects);
    }),
                 "cannot go on.*bad_alloc");
}

}  // namespace
}  // namespace mgi::control::test
