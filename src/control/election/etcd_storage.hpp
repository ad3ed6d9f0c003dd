/// \file
/// Epoch and ids of a controller that was elected through etcd. A reservation counts only while this
/// controller leads: etcd compares the epoch in the same transaction.
#pragma once

#include "control/controller/storage.hpp"
#include "control/election/election.hpp"

namespace mgi::control {

class EtcdStorage : public Storage {
public:
    /// Reservations under way fail when a stop is requested.
    EtcdStorage(EtcdClient const& etcd, EtcdOptions options, Term const& term,
                std::stop_token stop = {});

    [[nodiscard]] std::uint64_t epoch() const override { return epoch_; }
    IdBlock reserve(IdKind kind, std::uint32_t count) override;

private:
    EtcdClient const& etcd_;
    EtcdOptions options_;
    std::uint64_t epoch_;
    std::stop_token stop_;
};

}  // namespace mgi::control
