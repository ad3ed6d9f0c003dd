#include "runtime/server_board.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <mgi/error.hpp>

#include "transport/wire/socket.hpp"

namespace mgi {

namespace {

using mover::link::NicWords;
using transport::wire::Descriptor;
using transport::wire::with_error;

constexpr std::size_t kBytes = sizeof(NicWords);
// Its pages are there and stay: nobody is killed for a word that he reads.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Descriptor new_memory() {
    Descriptor file(memfd_create("mgi-nics", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || fallocate(file.get(), 0, 0, off_t(kBytes)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
        throw Error(ErrorCode::OutOfMemory,
                    with_error("no memory for words about this server's NICs", errno));
    }
    return file;
}

}  // namespace

std::shared_ptr<NicWords> shared_nic_words(std::function<int(int)> const& share) {
    Descriptor const mine = new_memory();
    Descriptor const file(share(mine.get()));
    struct stat facts{};
    if (fstat(file.get(), &facts) != 0 || facts.st_size != off_t(kBytes) ||
        fcntl(file.get(), F_GET_SEALS) != kSeals) {
        throw Error(ErrorCode::InvalidArgument,
                    "what this server's processes share is no memory for words about its NICs; "
                    "they may be of several versions of MGI");
    }
    void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) {
        throw Error(ErrorCode::OutOfMemory,
                    with_error("cannot map words about this server's NICs", errno));
    }
    return {static_cast<NicWords*>(at), [](NicWords* words) { munmap(words, kBytes); }};
}

// Interfaces are numbered in each network namespace.
std::uint64_t name_on_server(std::string const& nic) {
    std::uint32_t const number = if_nametoindex(nic.c_str());
    struct stat facts{};
    if (number == 0 || stat("/proc/self/ns/net", &facts) != 0) {
        throw Error(ErrorCode::NotFound, with_error("NIC " + nic + " has no number", errno));
    }
    return std::uint64_t(facts.st_ino) << 32 | number;
}

}  // namespace mgi
