/// \file
/// An outlet that counts what leaves.
#pragma once

#include "control/controller/engine.hpp"

namespace mgi::test {

struct Heard final : control::Outlet {
    void carry_out(control::Send const&) override { ++sends; }
    void carry_out(control::Close const&) override { ++closes; }
    void carry_out(control::Answer const&) override { ++answers; }
    int sends = 0;
    int closes = 0;
    int answers = 0;
};

}  // namespace mgi::test
