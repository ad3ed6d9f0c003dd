/// \file
/// Everything a kernel includes. Compiles with g++ and with nvcc; needs libcu++ and nothing else.
#pragma once

#include <mgi/device/channel.hpp>
