#include "runtime/part.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include <mgi/device/assert.hpp>

#include "core/keep_largest.hpp"
#include "core/text.hpp"

namespace mgi {

namespace {

constexpr std::uint64_t kMagic = 0x0054'5241'5049'474d;  // "MGIPART"
// Of all that stands in a part: header, tables, protocols.
constexpr std::uint32_t kPartVersion = 1;
constexpr std::uint64_t kPage = 4096;
// Members and endpoints that a part may name.
constexpr std::uint64_t kMostNamed = std::uint64_t{1} << 20;
// How long a failing member is given to say why.
constexpr auto kSpeech = std::chrono::milliseconds(5);

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
    return (bytes + to - 1) / to * to;
}

[[noreturn]] void refuse(std::uint32_t channel, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument,
                "this is no part of channel " + std::to_string(channel) + ": " + what);
}

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "words that processes share");

}  // namespace

struct Part::Header {
    std::uint64_t magic = kMagic;
    std::uint32_t version = kPartVersion;
    std::uint32_t channel = 0;
    std::uint64_t address = 0;
    std::uint32_t members = 0;
    std::uint32_t sources = 0;
    std::uint32_t destinations = 0;
    PartSizes sizes;
    Places places;

    std::uint32_t transfer = 0;
    std::uint32_t segment_rows = 0;
    std::uint32_t text_bytes = 0;
    std::uint32_t slots = 0;
    std::uint32_t credits = 0;
    std::uint32_t lanes = 0;
    std::uint32_t tile_rows = 0;
    std::uint32_t chunk_rows = 0;
    std::uint32_t max_groups = 0;
    std::uint64_t receive_limit = 0;

    std::atomic<std::uint64_t> far_progress{0};

    // ErrorCode | member << 8. The text stands behind `told`, its length plus 1.
    alignas(64) Word failed{0};
    Word told{0};
    std::array<char, 4096> text{};
};

struct alignas(64) Part::Member {
    std::atomic<std::uint64_t> heartbeat{0};
    Word presence{0};
    Word pid{0};
};

std::string PartMembers::name(std::uint32_t member) const {
    return member < names.size() ? names[member] : "process " + std::to_string(member);
}

bool PartMembers::on_gpus() const {
    auto const any = [](std::vector<bool> const& of) {
        return std::find(of.begin(), of.end(), true) != of.end();
    };
    return any(source_on_gpu) || any(destination_on_gpu);
}

bool PartMembers::is_direct() const {
    for (std::size_t s = 0; s < direct.size(); ++s) {
        for (std::size_t d = 0; d < direct[s].size(); ++d) {
            if (direct[s][d] && (source_member[s] == me || destination_member[d] == me))
                return true;
        }
    }
    return false;
}

bool PartMembers::cross_servers() const {
    return std::any_of(server.begin(), server.end(),
                       [this](std::uint32_t one) { return one != server[me]; });
}

void PartMembers::check(std::size_t sources, std::size_t destinations) const {
    auto const known = [&](std::uint32_t member) { return member < count; };
    if (me < count && count <= kMostNamed && source_member.size() == sources &&
        destination_member.size() == destinations && (server.empty() || server.size() == count) &&
        std::all_of(source_member.begin(), source_member.end(), known) &&
        std::all_of(destination_member.begin(), destination_member.end(), known)) {
        return;
    }
    throw Error(ErrorCode::InvalidArgument,
                "a channel of several processes: " + std::to_string(source_member.size()) +
                    " sources and " + std::to_string(destination_member.size()) +
                    " destinations are said to be with " + std::to_string(count) +
                    " processes; the channel has " + std::to_string(sources) + " and " +
                    std::to_string(destinations) + ", or a process is none of them");
}

Part::Part(std::shared_ptr<memory::SharedBlock> block, PartMembers members, PartSizes const& sizes,
           Places const& places)
    : block_(std::move(block)), members_(std::move(members)), sizes_(sizes), places_(places) {}

Part::Places Part::places_of(std::uint64_t members, std::uint64_t endpoints,
                             PartSizes const& sizes) {
    // No sum below can overflow.
    std::uint64_t const most = memory::SharedBlock::most_bytes();
    if (members > kMostNamed || endpoints > 2 * kMostNamed || sizes.tables > most ||
        sizes.fixed > most || sizes.growth > most / members) {
        throw Error(ErrorCode::OutOfMemory,
                    "a channel of " + std::to_string(members) + " processes would share " +
                        bytes_text(sizes.tables) + " of tables, " + bytes_text(sizes.fixed) +
                        " of segments and " + bytes_text(sizes.growth) +
                        " that each may keep; all of it has to be less than " + bytes_text(most));
    }
    Places places;
    places.tables =
        round_up(sizeof(Header) + members * sizeof(Member) + endpoints * sizeof(Word), kPage);
    // The segments in huge pages, where the machine has them.
    places.pool = round_up(places.tables + sizes.tables, memory::SharedBlock::kAlignment);
    places.growth = places.pool + round_up(sizes.fixed, kPage);
    places.bytes = places.growth + members * round_up(sizes.growth, kPage);
    return places;
}

std::uint64_t Part::most_growth(std::uint32_t members) {
    return memory::SharedBlock::most_bytes() / 2 / std::max(members, 1U) / kPage * kPage;
}

std::shared_ptr<Part> Part::create(std::uint32_t channel, PartMembers members, Plan const& plan,
                                   std::uint64_t receive_limit, PartSizes const& sizes) {
    std::size_t const endpoints = members.source_member.size() + members.destination_member.size();
    Places const places = places_of(members.count, endpoints, sizes);
    auto block = memory::SharedBlock::create(places.bytes);
    if (!block->reserve(0, places.tables + sizes.tables) ||
        (sizes.fixed != 0 && !block->reserve(places.pool, places.growth - places.pool))) {
        throw Error(ErrorCode::OutOfMemory,
                    "the machine has no " + bytes_text(sizes.tables + sizes.fixed) +
                        " for the channel's part of this server; choose smaller segments, fewer "
                        "slots, or give the machine's shared memory more room");
    }
    auto* const header = new (block->data()) Header;
    header->channel = channel;
    header->address = block->address();
    header->members = members.count;
    header->sources = static_cast<std::uint32_t>(members.source_member.size());
    header->destinations = static_cast<std::uint32_t>(members.destination_member.size());
    header->sizes = sizes;
    header->places = places;
    header->transfer = static_cast<std::uint32_t>(plan.transfer);
    header->segment_rows = plan.segment_rows;
    header->text_bytes = plan.text_bytes;
    header->slots = plan.slots;
    header->credits = plan.credits;
    header->lanes = plan.lanes;
    header->tile_rows = plan.tile_rows;
    header->chunk_rows = plan.chunk_rows;
    header->max_groups = plan.max_groups;
    header->receive_limit = receive_limit;
    std::shared_ptr<Part> part(new Part(std::move(block), std::move(members), sizes, places));
    for (std::uint32_t m = 0; m < part->members_.count; ++m) new (&part->member(m)) Member;
    // Who has not said otherwise may still come.
    for (std::uint32_t s = 0; s < header->sources; ++s) part->attend_source(s, true);
    for (std::uint32_t d = 0; d < header->destinations; ++d) part->attend_destination(d, true);
    return part;
}

std::shared_ptr<Part> Part::open(int descriptor, std::uint32_t channel, PartMembers members) {
    // A copy: nobody changes what was checked. Its words are not looked at.
    alignas(Header) std::array<char, sizeof(Header)> bytes{};
    if (pread(descriptor, bytes.data(), bytes.size(), 0) != std::ptrdiff_t(bytes.size())) {
        refuse(channel, "it is too short");
    }
    Header const& header = *std::launder(reinterpret_cast<Header const*>(bytes.data()));
    if (header.magic != kMagic) refuse(channel, "it is something else");
    if (header.version != kPartVersion) {
        refuse(channel, "it has version " + std::to_string(header.version) + ", this process " +
                            std::to_string(kPartVersion) + "; run the same MGI in all processes");
    }
    if (header.channel != channel) {
        refuse(channel, "it is one of channel " + std::to_string(header.channel));
    }
    if (header.members != members.count || header.sources != members.source_member.size() ||
        header.destinations != members.destination_member.size()) {
        refuse(channel, "it is for " + std::to_string(header.members) + " processes, " +
                            std::to_string(header.sources) + " sources and " +
                            std::to_string(header.destinations) + " destinations, not " +
                            std::to_string(members.count) + ", " +
                            std::to_string(members.source_member.size()) + " and " +
                            std::to_string(members.destination_member.size()));
    }
    std::uint64_t const endpoints = std::uint64_t{header.sources} + header.destinations;
    Places const places = places_of(header.members, endpoints, header.sizes);
    if (!(places == header.places)) refuse(channel, "its sizes contradict each other");
    auto block = memory::SharedBlock::open(descriptor, header.address, places.bytes);
    if (block == nullptr) return nullptr;
    return std::shared_ptr<Part>(
        new Part(std::move(block), std::move(members), header.sizes, places));
}

Part::Header& Part::header() const {
    return *std::launder(reinterpret_cast<Header*>(block_->data()));
}

Part::Member& Part::member(std::uint32_t index) const {
    return reinterpret_cast<Member*>(block_->data() + sizeof(Header))[index];
}

Plan Part::plan() const {
    Header const& from = header();
    Plan plan;
    plan.transfer = Transfer(from.transfer);
    plan.segment_rows = from.segment_rows;
    plan.text_bytes = from.text_bytes;
    plan.slots = from.slots;
    plan.credits = from.credits;
    plan.lanes = from.lanes;
    plan.tile_rows = from.tile_rows;
    plan.chunk_rows = from.chunk_rows;
    plan.max_groups = from.max_groups;
    return plan;
}

std::uint64_t Part::receive_limit() const {
    return header().receive_limit;
}

void Part::check(PartSizes const& sizes) const {
    if (sizes_ == sizes) return;
    auto const text = [](PartSizes const& one) {
        return bytes_text(one.tables) + " of tables, " + bytes_text(one.fixed) +
               " of segments and " + bytes_text(one.growth) + " that each process may keep";
    };
    refuse(header().channel, "it has " + text(sizes_) + "; this process' specification needs " +
                                 text(sizes) + ". All processes have to give the same one");
}

char* Part::tables() const {
    return block_->data() + places_.tables;
}

memory::Pool::Shared Part::pool() const {
    std::uint64_t const growth = round_up(sizes_.growth, kPage);
    // Those of this server share its charge.
    std::uint64_t here = 0;
    for (std::uint32_t m = 0; m < members_.count; ++m) here += members_.is_here(m) ? 1 : 0;
    MGI_ASSERT(here != 0 && members_.me < members_.count, here, members_.me, members_.count);
    return {block_, places_.pool, places_.growth + members_.me * growth,
            (sizes_.fixed + here - 1) / here};
}

void Part::join() {
    Member& mine = member(members_.me);
    mine.pid.store(static_cast<std::uint32_t>(getpid()), std::memory_order_relaxed);
    mine.presence.store(static_cast<std::uint32_t>(Presence::Joined), std::memory_order_release);
}

void Part::leave() {
    for (std::uint32_t s = 0; s < members_.source_member.size(); ++s) {
        if (members_.source_member[s] == members_.me) attend_source(s, false);
    }
    for (std::uint32_t d = 0; d < members_.destination_member.size(); ++d) {
        if (members_.destination_member[d] == members_.me) attend_destination(d, false);
    }
    // release: what this member did comes before that it is gone.
    member(members_.me)
        .presence.store(static_cast<std::uint32_t>(Presence::Left), std::memory_order_release);
}

void Part::beat() {
    member(members_.me).heartbeat.fetch_add(1, std::memory_order_relaxed);
}

Part::Presence Part::presence(std::uint32_t index) const {
    return static_cast<Presence>(member(index).presence.load(std::memory_order_acquire));
}

std::uint64_t Part::heartbeat(std::uint32_t index) const {
    return member(index).heartbeat.load(std::memory_order_relaxed);
}

std::string Part::describe(std::uint32_t index) const {
    std::uint32_t const pid = member(index).pid.load(std::memory_order_relaxed);
    std::string const name = members_.name(index);
    return pid == 0 ? name : name + " (pid " + std::to_string(pid) + ")";
}

std::atomic<std::uint32_t>& Part::attended(std::size_t endpoint) const {
    MGI_ASSERT(endpoint < members_.source_member.size() + members_.destination_member.size(),
               endpoint, members_.source_member.size(), members_.destination_member.size());
    return reinterpret_cast<Word*>(&member(members_.count))[endpoint];
}

void Part::attend_source(std::uint32_t source, bool is_attended) {
    attended(source).store(is_attended ? 1 : 0, std::memory_order_relaxed);
}

void Part::attend_destination(std::uint32_t destination, bool is_attended) {
    attended(members_.source_member.size() + destination)
        .store(is_attended ? 1 : 0, std::memory_order_relaxed);
}

bool Part::is_source_attended(std::uint32_t source) const {
    return attended(source).load(std::memory_order_relaxed) != 0;
}

bool Part::is_destination_attended(std::uint32_t destination) const {
    return attended(members_.source_member.size() + destination).load(std::memory_order_relaxed) !=
           0;
}

void Part::note_far_progress(std::uint64_t count) {
    keep_largest(header().far_progress, count);
}

std::uint64_t Part::far_progress() const {
    return header().far_progress.load(std::memory_order_relaxed);
}

bool Part::fail(ErrorCode code, std::string_view text) noexcept {
    Header& to = header();
    std::uint32_t none = 0;
    std::uint32_t const word = static_cast<std::uint32_t>(code) | members_.me << 8;
    if (!to.failed.compare_exchange_strong(none, word, std::memory_order_relaxed)) return false;
    std::size_t const length = std::min(text.size(), to.text.size());
    // One by one, both here and where they are read: ThreadSanitizer overlooks memcpy.
    for (std::size_t i = 0; i < length; ++i) to.text[i] = text[i];
    to.told.store(static_cast<std::uint32_t>(length) + 1, std::memory_order_release);
    return true;
}

ErrorCode Part::error() const {
    return static_cast<ErrorCode>(header().failed.load(std::memory_order_relaxed) & 0xff);
}

std::string Part::failure_text() const {
    Header const& from = header();
    auto const deadline = std::chrono::steady_clock::now() + kSpeech;
    std::uint32_t told = from.told.load(std::memory_order_acquire);
    while (told == 0 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
        told = from.told.load(std::memory_order_acquire);
    }
    if (told != 0) {
        std::string text;
        std::size_t const length = std::min<std::size_t>(told - 1, from.text.size());
        for (std::size_t i = 0; i < length; ++i) text += from.text[i];
        return text;
    }
    std::uint32_t const by = from.failed.load(std::memory_order_relaxed) >> 8;
    return "channel " + std::to_string(from.channel) + ": " +
           describe(std::min(by, members_.count - 1)) +
           " failed it and has not said why; it may have died";
}

}  // namespace mgi
