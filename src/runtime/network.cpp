#include "runtime/network.hpp"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "core/text.hpp"
#include "core/variable.hpp"
#include "runtime/nic_owners.hpp"
#include "runtime/server_board.hpp"
#include "transport/ucx/ucx.hpp"
#include "transport/wire/own_addresses.hpp"

namespace mgi {

namespace {

constexpr std::chrono::seconds kMostPassing{60};
constexpr std::chrono::milliseconds kLookAtPassing{20};

// By which processes of one server reach each other where nothing else is said.
constexpr char const* kLoopback = "127.0.0.1";

std::vector<std::string> configured(std::vector<std::string> wanted) {
    if (!wanted.empty()) return wanted;
    std::string_view left = variable("MGI_ADDRESSES");
    while (!left.empty()) {
        std::string_view const one = take_word(left, ',');
        if (!one.empty()) wanted.emplace_back(one);
    }
    return wanted;
}

}  // namespace

ChannelNetwork::ChannelNetwork(std::vector<std::string> wanted, std::vector<Device> devices,
                               std::optional<bool> encrypts)
    : wanted_(configured(std::move(wanted))), devices_(std::move(devices)), encrypts_(encrypts) {}

ChannelNetwork::~ChannelNetwork() {
    if (wires_ == nullptr) return;
    try {
        // A relayed wire that direct ones do without ends by itself: who still has one needs it.
        auto const end = std::chrono::steady_clock::now() + kMostPassing;
        while (wires_->passed_on().connections != 0) {
            if (std::chrono::steady_clock::now() >= end) {
                log::warn(
                    "this process no longer passes on what others send each other, after {} s; "
                    "they lose wires",
                    kMostPassing.count());
                return;
            }
            std::this_thread::sleep_for(kLookAtPassing);
        }
    } catch (std::exception const& error) {
        log::warn("what others send each other is no longer passed on: {}", error.what());
    }
}

bool ChannelNetwork::relays() {
    return word_in_variable("MGI_RELAY_SERVERS", {"on", "off"}) == 0;
}

bool ChannelNetwork::encrypts() const {
    // Once: the wires keep to it, whatever becomes of the environment.
    std::call_once(asked_, [this] {
        std::size_t const word = word_in_variable("MGI_WIRE_ENCRYPTION", {"off", "on", "kernel"});
        encryption_.on = encrypts_.value_or(word != 0);
        encryption_.in_kernel = word == 2;
    });
    return encryption_.on;
}

transport::wire::WireThreadOptions ChannelNetwork::wire_options() const {
    bool const over_ucx = word_in_variable("MGI_WIRES", {"tcp", "ucx"}) == 1;
    transport::wire::WireThreadOptions options;
    if (over_ucx) options.medium = transport::ucx::open();
    if (encrypts()) options.encryption = encryption_;
    return options;
}

std::vector<std::string> ChannelNetwork::addresses(bool within_server) {
    std::lock_guard const lock(mutex_);
    if (wanted_.empty() && !within_server) {
        throw Error(
            ErrorCode::InvalidArgument,
            "this process has no addresses for rows between servers: set MGI_ADDRESSES to "
            "its NICs' addresses or names, separated by commas (MGI_ADDRESSES=eth0,eth1), or "
            "RuntimeOptions::addresses");
    }
    if (wanted_.size() > mover::link::NicBoard::kNics) {
        throw Error(ErrorCode::InvalidArgument,
                    "MGI_ADDRESSES has " + std::to_string(wanted_.size()) + " NICs, more than " +
                        std::to_string(mover::link::NicBoard::kNics));
    }
    if (wires_ != nullptr) return addresses_;
    std::vector<NicWish> const wishes =
        nic_wishes(wanted_.empty() ? std::vector<std::string>{kLoopback} : wanted_, devices_);
    std::vector<std::string> names;
    for (NicWish const& wish : wishes) names.push_back(wish.nic);
    auto wires = std::make_unique<transport::wire::WireThread>(wire_options());
    std::vector<std::string> nics;
    std::vector<transport::wire::Address> own;
    for (auto& [nic, address] : transport::wire::own_addresses(names)) {
        nics.push_back(std::move(nic));
        own.push_back(address);
    }
    std::string text;
    std::vector<std::string> addresses;
    for (auto const& one : wires->listen(own)) {
        addresses.push_back(one.text());
        text += (text.empty() ? "" : ", ") + one.text();
    }
    log::info("other servers reach this process at {}{}", text,
              encrypts() ? ", and what goes there is encrypted" : "");
    addresses_ = std::move(addresses);
    nics_ = std::move(nics);
    own_nics_ = own_nics(wishes, nics_, devices_);
    if (share_) share_board();
    wires_ = std::move(wires);
    return addresses_;
}

std::string ChannelNetwork::why_no_nic_is_direct() const {
    for (std::string const& nic : nics_) {
        if (topology::nic_has_rdma(nic, net_)) continue;
        return "its NIC " + nic +
               " is no RDMA device, and cannot reach a GPU's memory (let "
               "MGI_ADDRESSES name NICs that are)";
    }
    return "";
}

// Without it a NIC is lent among this process' devices alone.
void ChannelNetwork::share_board() {
    try {
        std::vector<std::uint64_t> names;
        for (std::string const& nic : nics_) names.push_back(name_on_server(nic));
        if (board_.share(shared_nic_words(share_), names)) return;
        log::warn("the words about this server's NICs are another version's, or have no more room");
    } catch (std::exception const& error) {
        log::warn("other processes of this server do not know who uses its NICs: {}", error.what());
    }
}

}  // namespace mgi
