#include "runtime/network.hpp"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "transport/wire/own_addresses.hpp"

namespace mgi {

namespace {

std::vector<std::string> configured(std::vector<std::string> wanted) {
    if (!wanted.empty()) return wanted;
    char const* const text = std::getenv("MGI_ADDRESSES");
    std::string_view left = text == nullptr ? "" : text;
    while (!left.empty()) {
        std::string_view const one = left.substr(0, left.find(','));
        left.remove_prefix(std::min(left.size(), one.size() + 1));
        if (!one.empty()) wanted.emplace_back(one);
    }
    return wanted;
}

}  // namespace

ChannelNetwork::ChannelNetwork(std::vector<std::string> wanted)
    : wanted_(configured(std::move(wanted))) {}

std::vector<std::string> ChannelNetwork::addresses() {
    std::lock_guard const lock(mutex_);
    if (wires_ != nullptr) return addresses_;
    if (wanted_.empty()) {
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
    auto wires = std::make_unique<transport::wire::WireThread>();
    std::vector<std::string> nics;
    std::vector<transport::wire::Address> own;
    for (auto& [nic, address] : transport::wire::own_addresses(wanted_)) {
        nics.push_back(std::move(nic));
        own.push_back(address);
    }
    std::string text;
    std::vector<std::string> addresses;
    for (auto const& one : wires->listen(own)) {
        addresses.push_back(one.text());
        text += (text.empty() ? "" : ", ") + one.text();
    }
    log::info("other servers reach this process at {}", text);
    addresses_ = std::move(addresses);
    nics_ = std::move(nics);
    wires_ = std::move(wires);
    return addresses_;
}

}  // namespace mgi
