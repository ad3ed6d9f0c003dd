// mgi-peer-gloo: the exchange through Gloo's alltoallv over TCP, as PyTorch has it on CPUs.

#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <filesystem>

#include "peers/bulk.hpp"

namespace mgi::peers {
namespace {

class GlooCollectives : public Collectives {
public:
    explicit GlooCollectives(Options const& options)
        : words_(options.columns()),
          context_(std::make_shared<gloo::rendezvous::Context>(int(options.rank),
                                                               int(options.processes))) {
        gloo::transport::tcp::attr where;
        // It takes one NIC.
        char const* const nics = std::getenv("MGI_ADDRESSES");
        std::string const all = nics == nullptr ? "127.0.0.1" : nics;
        where.hostname = all.substr(0, all.find(','));
        // The driver takes its folder away, with what stands in it.
        gloo::rendezvous::FileStore store(
            std::filesystem::path(options.driver).parent_path().string());
        auto device = gloo::transport::tcp::CreateDevice(where);
        context_->connectFullMesh(store, device);
    }

    void barrier() override {
        gloo::BarrierOptions options(context_);
        gloo::barrier(options);
    }
    void alltoall(std::vector<std::uint64_t>& to, std::vector<std::uint64_t>& from) override {
        gloo::AlltoallOptions options(context_);
        options.setInput(to.data(), to.size());
        options.setOutput(from.data(), from.size());
        gloo::alltoall(options);
    }
    void alltoallv(char* out, std::vector<std::uint64_t> const& to, char* in,
                   std::vector<std::uint64_t> const& from) override {
        gloo::AlltoallvOptions options(context_);
        options.setInput(reinterpret_cast<std::uint64_t*>(out), in_words(to));
        options.setOutput(reinterpret_cast<std::uint64_t*>(in), in_words(from));
        gloo::alltoallv(options);
    }
    void broadcast(char* rows, std::uint64_t count) override {
        gloo::BroadcastOptions options(context_);
        options.setRoot(0);
        options.setOutput(reinterpret_cast<std::uint64_t*>(rows), count * words_);
        gloo::broadcast(options);
    }

private:
    [[nodiscard]] std::vector<std::int64_t> in_words(std::vector<std::uint64_t> const& rows) const {
        std::vector<std::int64_t> words;
        for (std::uint64_t const some : rows) words.push_back(std::int64_t(some * words_));
        return words;
    }

    std::uint64_t words_;  ///< of a row
    std::shared_ptr<gloo::rendezvous::Context> context_;
};

std::unique_ptr<Member> make(Options const& options, OwnRows const& rows, Driver&) {
    return std::make_unique<BulkMember>(options, only(options, rows),
                                        std::make_unique<GlooCollectives>(options));
}

}  // namespace
}  // namespace mgi::peers

int main(int count, char** words) {
    return mgi::peers::run_member({words + 1, words + count}, mgi::peers::make);
}
