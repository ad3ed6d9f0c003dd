#include "planner/directory.hpp"

#include <mgi/error.hpp>

#include "planner/channel_plan.hpp"
#include "planner/table_codec.hpp"

namespace mgi::planner {
namespace {

constexpr char const kMagic[5] = "MGID";
constexpr std::uint16_t kVersion = 1;

}  // namespace

void Directory::add(Place place) {
    ++size_;
    bool const goes_on =
        !blocks_.empty() && blocks_.back().servers == 1 && blocks_.back().server == place.server;
    if (!goes_on) {
        close();
        blocks_.push_back({place.server, 1, 0, {}});
    }
    DirectoryBlock& block = blocks_.back();
    ++block.each;
    if (!block.runs.empty() && block.runs.back().vertex + block.runs.back().count == place.vertex) {
        ++block.runs.back().count;
    } else {
        block.runs.push_back({place.vertex, 1});
    }
}

void Directory::close() {
    if (blocks_.size() < 2) return;
    DirectoryBlock const& last = blocks_.back();
    DirectoryBlock& before = blocks_[blocks_.size() - 2];
    if (before.server + before.servers != last.server || before.runs != last.runs) return;
    before.servers += last.servers;
    blocks_.pop_back();
}

Place Directory::at(std::uint64_t endpoint) const {
    std::uint64_t rest = endpoint;
    for (DirectoryBlock const& block : blocks_) {
        if (rest >= block.endpoints()) {
            rest -= block.endpoints();
            continue;
        }
        auto in_server = std::uint32_t(rest % block.each);
        for (VertexRun const& run : block.runs) {
            if (in_server < run.count) {
                return {block.server + ServerId(rest / block.each), run.vertex + in_server};
            }
            in_server -= run.count;
        }
    }
    throw Error(ErrorCode::InvalidArgument, "the channel has no endpoint " +
                                                std::to_string(endpoint) + "; there are " +
                                                std::to_string(size_));
}

/// Reads and writes what a directory keeps to itself.
class DirectoryCodec {
public:
    static void put(ByteWriter& out, Directory const& directory) {
        out.number(directory.blocks_.size());
        for (DirectoryBlock const& block : directory.blocks_) {
            out.number(block.server);
            out.number(block.servers);
            out.number(block.runs.size());
            for (VertexRun const& run : block.runs) {
                out.number(run.vertex);
                out.number(run.count);
            }
        }
    }
    static Directory take(ByteReader& in) {
        Directory directory;
        directory.blocks_.resize(in.count(5, "blocks"));
        for (DirectoryBlock& block : directory.blocks_) {
            block.server = ServerId(in.number(kMostServers, "a server"));
            block.servers = std::uint32_t(in.number(kMostServers, "servers of a block"));
            block.runs.resize(in.count(2, "runs"));
            std::uint64_t each = 0;
            for (VertexRun& run : block.runs) {
                run.vertex = std::uint32_t(in.number(0xffff, "a vertex"));
                run.count = std::uint32_t(in.number(0x10000 - run.vertex, "endpoints of a run"));
                if (run.count == 0) in.refuse("at least one endpoint in a run");
                each += run.count;
            }
            if (each > kMostEndpoints) in.refuse("fewer endpoints on a server");
            block.each = std::uint32_t(each);
            if (block.endpoints() == 0) in.refuse("a block of at least one endpoint");
            directory.size_ += block.endpoints();
            if (directory.size_ > kMostEndpoints) {
                in.refuse("at most " + std::to_string(kMostEndpoints) + " endpoints");
            }
        }
        return directory;
    }

private:
    static constexpr std::uint64_t kMostServers = 0x7fffffff;
};

std::string encode(ChannelDirectory const& directory) {
    ByteWriter out;
    out.header(kMagic, kVersion);
    DirectoryCodec::put(out, directory.sources);
    DirectoryCodec::put(out, directory.destinations);
    return std::move(out).take();
}

ChannelDirectory decode_directory(std::string_view bytes) {
    ByteReader in(bytes, "channel directory");
    in.header(kMagic, kVersion);
    ChannelDirectory directory;
    directory.sources = DirectoryCodec::take(in);
    directory.destinations = DirectoryCodec::take(in);
    in.end();
    return directory;
}

}  // namespace mgi::planner
