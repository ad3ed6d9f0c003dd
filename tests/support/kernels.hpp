/// \file
/// What the kernels of many tests do.
#pragma once

#include <cstdint>

#include "support/tables.hpp"

namespace mgi::test {

/// Offers `rows` rows with keys below `keys` once.
inline device::SendResult offer(device::Group const& group, device::Shared& shared,
                                device::Channel const& to, std::size_t rows = 10,
                                std::int64_t keys = 7) {
    DeviceBatch batch(make_batch(numbered_schema(), numbered_rows(rows, keys)));
    return to.send(group, shared, batch.slice(0, rows));
}

/// Calls `send(batch)` with such rows until it fails; returns why it did.
template <class Send>
ErrorCode send_until_it_fails(std::size_t rows, std::int64_t keys, Send&& send) {
    DeviceBatch batch(make_batch(numbered_schema(), numbered_rows(rows, keys)));
    for (device::u32 round = 0;; ++round) {
        device::SendResult const result = send(batch.slice(0, rows));
        if (result.status == device::Status::Error) return result.code;
        device::backoff(round % 100);
    }
}

/// Receives until the end or an error; returns how it ended.
inline device::CallResult receive_all(device::Group const& group, device::Shared& shared,
                                      device::Channel const& from) {
    for (device::u32 idle = 0;;) {
        device::ReceivedBatch batch;
        device::CallResult const result = from.recv(group, shared, batch);
        if (result == device::Status::Ok) {
            from.release(group, shared, batch);
            idle = 0;
        } else if (result == device::Status::Pending) {
            device::backoff(idle++);
        } else {
            return result;
        }
    }
}

}  // namespace mgi::test
