#include "control/cli/status_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace mgi::control {

namespace {

using Json = nlohmann::json;

/// Columns as wide as their widest cell; the last one as it is.
class Table {
public:
    explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    [[nodiscard]] std::string text() const {
        std::string text;
        for (auto const& row : rows_) {
            for (std::size_t column = 0; column < row.size(); ++column) {
                bool const last = column + 1 == row.size();
                text += last ? row[column] : fmt::format("{:<{}}  ", row[column], width(column));
            }
            text.erase(text.find_last_not_of(' ') + 1);
            text += '\n';
        }
        return text;
    }

private:
    [[nodiscard]] std::size_t width(std::size_t column) const {
        std::size_t widest = 0;
        for (auto const& row : rows_) widest = std::max(widest, row[column].size());
        return widest;
    }
    std::vector<std::vector<std::string>> rows_;
};

template <std::size_t Count>
std::string scaled(double value, std::array<char const*, Count> const& units) {
    std::size_t unit = 0;
    while (value >= 1000 && unit + 1 < Count) {
        value /= 1000;
        ++unit;
    }
    int const digits = unit == 0 || value >= 100 ? 0 : 1;
    return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

std::string bytes_text(double bytes) {
    return scaled(bytes, std::array{" B", " kB", " MB", " GB", " TB", " PB"});
}

std::string rate_text(double gbps) {
    return gbps > 0 ? bytes_text(gbps * 1e9) + "/s" : "-";
}

std::string rows_text(double rows) {
    return scaled(rows, std::array{"", " k", " M", " G", " T"});
}

std::string time_text(double seconds) {
    auto const whole = std::int64_t(std::llround(std::max(seconds, 0.0)));
    if (whole < 60) return fmt::format("{} s", whole);
    if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
    if (whole < 86'400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
    return fmt::format("{} d {} h", whole / 86'400, whole % 86'400 / 3600);
}

/// "8: 7 present, 1 away".
std::string tally(Json const& items) {
    std::map<std::string, std::size_t> states;
    for (Json const& item : items) ++states[item.at("state").get<std::string>()];
    std::string text = std::to_string(items.size());
    char const* before = ": ";
    for (auto const& [state, count] : states) {
        text += fmt::format("{}{} {}", before, count, state);
        before = ", ";
    }
    return text;
}

std::string more(std::size_t all, std::size_t most, char const* what) {
    return all > most ? fmt::format("and {} {} more; --all shows them\n", all - most, what) : "";
}

/// What the server's NICs carry to and from the network.
std::string network_use(Json const& server, char const* end) {
    double used = 0;
    double can = 0;
    for (Json const& link : server.at("links")) {
        if (link.at(end) != "network") continue;
        used += link.at("used_gbps").get<double>();
        can += link.at("gbps").get<double>();
    }
    return can > 0 ? fmt::format("{} of {}", used > 0 ? rate_text(used) : "0", rate_text(can))
                   : "-";
}

std::string servers_text(Json const& servers, std::size_t most) {
    if (servers.empty()) return "no server has registered: start `mgi agent` on each\n";
    Table table({"SERVER", "STATE", "ENDPOINTS", "LEASE LEFT", "TO NETWORK", "FROM NETWORK", ""});
    std::vector<Json const*> order;
    for (Json const& server : servers) order.push_back(&server);
    std::sort(order.begin(), order.end(), [](Json const* a, Json const* b) {
        // node2 before node10
        return strverscmp(a->at("name").get_ref<std::string const&>().c_str(),
                          b->at("name").get_ref<std::string const&>().c_str()) < 0;
    });
    for (std::size_t at = 0; at < std::min(order.size(), most); ++at) {
        Json const& server = *order[at];
        auto const off = server.at("clock_off_ms").get<double>() / 1e3;
        table.add({server.at("name"), server.at("state"),
                   std::to_string(server.at("endpoints").get<std::size_t>()),
                   fmt::format("{} ms", server.at("lease_left_ms").get<std::int64_t>()),
                   network_use(server, "to"), network_use(server, "from"),
                   std::abs(off) > 1 ? fmt::format("its clock is {:.0f} s off", off) : ""});
    }
    return table.text() + more(servers.size(), most, "servers");
}

std::string channels_text(Json const& channels, std::size_t most) {
    if (channels.empty()) return "";
    std::vector<Json const*> order;
    for (Json const& channel : channels) order.push_back(&channel);
    std::stable_sort(order.begin(), order.end(), [](Json const* a, Json const* b) {
        bool const a_failed = a->at("state") == "failed";
        bool const b_failed = b->at("state") == "failed";
        return a_failed != b_failed ? a_failed : a->at("gbps") > b->at("gbps");
    });
    Table table({"CHANNEL", "NAME", "STATE", "THROUGHPUT", "FROM", "TO", "ROWS", "MOVED", "SERVERS",
                 "PLAN", ""});
    for (std::size_t at = 0; at < std::min(order.size(), most); ++at) {
        Json const& channel = *order[at];
        auto const number = [&](char const* field) {
            return std::to_string(channel.at(field).get<std::uint64_t>());
        };
        table.add({number("id"), channel.at("name"), channel.at("state"),
                   rate_text(channel.at("gbps")), number("sources"), number("destinations"),
                   rows_text(channel.at("rows")), bytes_text(channel.at("bytes")),
                   std::to_string(channel.at("servers").size()), number("generation"),
                   channel.at("why")});
    }
    return "\n" + table.text() + more(order.size(), most, "channels");
}

/// The links that are used most, as a share of what they can carry.
std::string links_text(Json const& servers, std::size_t most) {
    struct Used {
        double share;
        std::vector<std::string> row;
    };
    std::vector<Used> found;
    for (Json const& server : servers) {
        for (Json const& link : server.at("links")) {
            auto const used = link.at("used_gbps").get<double>();
            auto const can = link.at("gbps").get<double>();
            if (used <= 0 || can <= 0) continue;
            found.push_back({used / can,
                             {server.at("name"), link.at("from"), link.at("to"), rate_text(used),
                              rate_text(can), fmt::format("{:.0f}%", 100 * used / can)}});
        }
    }
    if (found.empty()) return "";
    std::stable_sort(found.begin(), found.end(),
                     [](Used const& a, Used const& b) { return a.share > b.share; });
    Table table({"LINK ON", "FROM", "TO", "USED", "CAN CARRY", "SHARE"});
    for (std::size_t at = 0; at < std::min(found.size(), most); ++at) table.add(found[at].row);
    return "\n" + table.text() + more(found.size(), most, "links");
}

std::string failures_text(Json const& status, std::size_t most) {
    Json const& failures = status.at("failures");
    if (failures.empty()) return "";
    std::string text = "\nfailures, the latest first\n";
    auto const uptime = status.at("uptime_s").get<double>();
    std::size_t shown = 0;
    for (auto failure = failures.rbegin(); failure != failures.rend(); ++failure) {
        if (shown++ == most) break;
        text +=
            fmt::format("  {:>12} ago  {}\n", time_text(uptime - failure->at("at_s").get<double>()),
                        failure->at("what").get<std::string>());
    }
    return text + more(failures.size(), most, "failures");
}

}  // namespace

std::string status_text(Json const& status, std::size_t most) {
    auto const controller = status.at("controller").get<std::string>();
    if (!status.at("leader").get<bool>()) {
        auto const leader = status.at("leader_address").get<std::string>();
        return fmt::format("controller {} stands by; {}\n", controller,
                           leader.empty() || leader == controller ? "none leads at the moment"
                                                                  : leader + " leads");
    }
    double gbps = 0;
    for (Json const& channel : status.at("channels")) gbps += channel.at("gbps").get<double>();
    Json const& servers = status.at("servers");
    return fmt::format("controller {} leads, epoch {}, up {}, version {}\n", controller,
                       status.at("epoch").get<std::uint64_t>(), time_text(status.at("uptime_s")),
                       status.at("version").get<std::string>()) +
           fmt::format("servers {}; endpoints {}; channels {}; throughput {}\n\n", tally(servers),
                       status.at("endpoints").size(), tally(status.at("channels")),
                       rate_text(gbps)) +
           servers_text(servers, most) + channels_text(status.at("channels"), most) +
           links_text(servers, std::min<std::size_t>(most, 10)) + failures_text(status, most);
}

}  // namespace mgi::control
