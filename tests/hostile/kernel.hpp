/// \file
/// What a group thread of a run does.
#pragma once

#include <memory>

#include "hostile/flow.hpp"

namespace mgi::hostile {

/// The paper's Figure 3 loop of one thread. Decisions are drawn alike by all threads of a group.
class Kernel {
public:
    Kernel(Flow& flow, Flow::GroupRun& run, device::Group const& group, std::uint32_t source,
           std::uint32_t destination);
    void operator()();

private:
    static constexpr std::uint32_t kNone = device::BasicChannel<HostileAtomics>::kNone;
    /// How a call went that is made again until all has ended.
    enum class Went : std::uint8_t { On, Nowhere, Wrong };

    void loop();
    Went send_or_flush();
    Went send();
    Went send_rows();
    Went flush();
    Went receive();
    void take(device::ReceivedBatch const& batch);
    [[nodiscard]] device::Batch offered(std::uint64_t first, std::uint64_t count);
    /// The channel must have failed, then.
    Went wrong(char const* call) const;
    void check_closed();

    Flow& flow_;
    Shape const& shape_;
    Flow::GroupRun& run_;
    device::Group const group_;
    device::Shared shared_;
    std::uint32_t* agreed_ = nullptr;  ///< a word of the group's
    device::BasicChannel<HostileAtomics> const channel_;
    Ledger::Offer* offer_ = nullptr;  ///< null where this is no source
    std::unique_ptr<test::DeviceBatch> batch_;
    std::unique_ptr<test::RowStructs> structs_;
    test::Random decide_;
    std::uint64_t next_ = 0;  ///< row to offer next
    bool told_ = false;       ///< by row: this thread has sent all of its rows, and said so
    bool flushed_ = true;
    bool ended_ = true;
};

}  // namespace mgi::hostile
