/// \file
/// Relacy, without the names it takes from everybody else: its header redefines `new`, `assert` and
/// the standard's memory orders as macros, so that tests written for it need no other change. Ours do.
#pragma once

#include <cuda/atomic>

#include <relacy/relacy.hpp>

#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef VAR
#undef VAR_T
#undef TLS_T
