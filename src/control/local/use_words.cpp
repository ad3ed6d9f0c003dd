#include "control/local/use_words.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace mgi::control {

namespace {

using For = ClusterWait::For;

constexpr std::size_t kMostName = 128;
constexpr std::size_t kMostText = 512;

// As much of it as may be said, and no half of a character at its end.
std::string cut(std::string const& text, std::size_t most) {
    std::size_t end = std::min(text.size(), most);
    auto const goes_on = [&](std::size_t at) { return (std::uint8_t(text[at]) & 0xC0) == 0x80; };
    while (end < text.size() && end > 0 && goes_on(end)) --end;
    return text.substr(0, end);
}

struct FlowField {
    char const* name;
    std::uint64_t ClusterFlow::* value;
};

constexpr std::array<FlowField, 9> kFlowFields{{{"rows", &ClusterFlow::rows},
                                                {"bytes", &ClusterFlow::bytes},
                                                {"segments", &ClusterFlow::segments},
                                                {"in_flight", &ClusterFlow::in_flight},
                                                {"waiting", &ClusterFlow::waiting},
                                                {"waits", &ClusterFlow::waits},
                                                {"waited_ms", &ClusterFlow::waited_ms},
                                                {"longest_wait_ms", &ClusterFlow::longest_wait_ms},
                                                {"resends", &ClusterFlow::resends}}};

// Zeros are left out: most of them are.
void add_flow(Json& message, ClusterFlow const& flow) {
    for (auto const& [name, value] : kFlowFields) {
        if (flow.*value != 0) message[name] = flow.*value;
    }
}

std::uint64_t count_in(Json const& message, char const* field, std::uint64_t most = UINT64_MAX) {
    return has(message, field) ? number_in(message, field, most) : 0;
}

ClusterFlow flow_in(Json const& message) {
    ClusterFlow flow;
    for (auto const& [name, value] : kFlowFields) flow.*value = count_in(message, name);
    return flow;
}

Json const& list_in(Json const& message, char const* field, std::size_t most) {
    static Json const none = Json::array();
    if (!has(message, field)) return none;
    Json const& list = message[field];
    if (!list.is_array() || list.size() > most) {
        throw Error(ErrorCode::InvalidArgument, std::string("field '") + field +
                                                    "': expected a list of at most " +
                                                    std::to_string(most));
    }
    for (Json const& item : list) {
        if (item.is_object()) continue;
        throw Error(ErrorCode::InvalidArgument,
                    std::string("field '") + field + "': expected a list of maps");
    }
    return list;
}

std::uint32_t end_in(Json const& message, char const* field) {
    return has(message, field) ? number32_in(message, field) : ClusterPathUse::kAll;
}

ClusterPathUse path_in(Json const& message) {
    ClusterPathUse path;
    path.source = end_in(message, "source");
    path.destination = end_in(message, "destination");
    path.by = text_in(message, "by", kMostName);
    if (has(message, "nic")) path.nic = text_in(message, "nic", kMostName);
    if (has(message, "peer")) path.peer = text_in(message, "peer", kMostName);
    path.flow = flow_in(message);
    return path;
}

ClusterNicUse nic_in(Json const& message) {
    return {text_in(message, "nic", kMostName), flow_in(message)};
}

ClusterWait wait_in(Json const& message) {
    ClusterWait wait;
    wait.what = For(number_in(message, "what", std::uint64_t(For::Link)));
    wait.who = number32_in(message, "who");
    wait.whom = ids_in(message, "whom");
    if (wait.whom.size() > ClusterWait::kMost) {
        throw Error(ErrorCode::InvalidArgument, "field 'whom': expected at most " +
                                                    std::to_string(ClusterWait::kMost) + " ids");
    }
    wait.more = std::uint32_t(count_in(message, "more", UINT32_MAX));
    wait.ms = count_in(message, "ms");
    wait.why = text_in(message, "why", kMostText);
    return wait;
}

}  // namespace

Json json_of(ClusterUse const& use) {
    Json message = {{"channel", use.channel}, {"rows", use.flow.rows}, {"bytes", use.flow.bytes}};
    add_flow(message, use.flow);
    message["queued"] = use.queued;
    Json paths = Json::array();
    for (ClusterPathUse const& path : use.paths) {
        Json one = {{"by", path.by}};
        if (path.source != ClusterPathUse::kAll) one["source"] = path.source;
        if (path.destination != ClusterPathUse::kAll) one["destination"] = path.destination;
        if (!path.nic.empty()) one["nic"] = cut(path.nic, kMostName);
        if (!path.peer.empty()) one["peer"] = cut(path.peer, kMostName);
        add_flow(one, path.flow);
        paths.push_back(std::move(one));
    }
    message["paths"] = std::move(paths);
    message["more_paths"] = use.more_paths;
    Json nics = Json::array();
    for (ClusterNicUse const& nic : use.nics) {
        Json one = {{"nic", cut(nic.nic, kMostName)}};
        add_flow(one, nic.flow);
        nics.push_back(std::move(one));
    }
    message["nics"] = std::move(nics);
    Json waits = Json::array();
    for (ClusterWait const& wait : use.waits) {
        waits.push_back({{"what", std::uint32_t(wait.what)},
                         {"who", wait.who},
                         {"whom", runs_of(wait.whom)},
                         {"more", wait.more},
                         {"ms", wait.ms},
                         {"why", cut(wait.why, kMostText)}});
    }
    message["who_waits"] = std::move(waits);
    message["more_who_wait"] = use.more_waits;
    return message;
}

ClusterUse use_in(Json const& message) {
    ClusterUse use;
    use.channel = number32_in(message, "channel");
    use.flow = flow_in(message);
    use.queued = count_in(message, "queued");
    for (Json const& path : list_in(message, "paths", ClusterUse::kMostPaths)) {
        use.paths.push_back(path_in(path));
    }
    use.more_paths = count_in(message, "more_paths");
    for (Json const& nic : list_in(message, "nics", ClusterUse::kMostNics)) {
        use.nics.push_back(nic_in(nic));
    }
    for (Json const& wait : list_in(message, "who_waits", ClusterUse::kMostWaits)) {
        use.waits.push_back(wait_in(wait));
    }
    use.more_waits = count_in(message, "more_who_wait");
    return use;
}

}  // namespace mgi::control
