// The tables of channels that are gone, for channels like them: building tables takes longer than all else that makes a
// channel.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/plan.hpp>

#include "gpu/memory.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/table_images.hpp"

namespace mgi {

// What tables are built from. Those of two channels for which it is the same are the same, word by word.
struct TableSource {
    ChannelSpec spec;
    Plan plan;
    std::vector<Here> heres;             // by table: the endpoints that it has
    std::vector<char const*> segments;   // and where their segments lie
    std::vector<char const*> addresses;  // and where it lies itself

    friend bool operator==(TableSource const&, TableSource const&) = default;
};

// Without what says nothing of tables: a name, ways, and how large pools are all together.
TableSource table_source(ChannelSpec spec, Plan plan);

struct BuiltTables {
    TableSource source;
    TableImages images;
    // By table: what it is before anybody has used it, and as many bytes for copies of it. None of another process'.
    std::vector<std::shared_ptr<gpu::PinnedMemory>> pinned;
};

// Of a runtime. Thread-safe.
class KeptTables {
public:
    // Bytes of images that it keeps at most. What came first goes first.
    explicit KeptTables(std::uint64_t most) : most_(most) {}

    // The tables of this source, nobody else's from now on; or null.
    std::unique_ptr<BuiltTables> find(TableSource const& source);
    void keep(std::unique_ptr<BuiltTables> tables);
    void trim() noexcept;

private:
    std::uint64_t const most_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<BuiltTables>> kept_;
};

}  // namespace mgi
