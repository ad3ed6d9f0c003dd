/// \file
/// One line of the GPU benchmark's results. Knows nothing of CUDA.
#pragma once

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mgi::bench {

/// Text as a JSON string.
inline std::string quoted(std::string const& text) {
    std::string out = "\"";
    for (char const c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
            out += escape;
        } else {
            out += c;
        }
    }
    return out + '"';
}

/// A number as JSON, which has none for NaN and infinity.
inline std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[32];
    std::snprintf(text, sizeof(text), "%.6g", value);
    return text;
}

/// A measurement and what it was taken with. Fields left empty are left out of the JSON.
struct Result {
    /// The benchmark's name if left empty.
    std::string name;
    /// What sets this line apart from the others of its name; values are JSON.
    std::vector<std::pair<std::string, std::string>> parameters;
    /// Payload in GB/s: of the fastest and of the middle run.
    std::optional<double> best_gbps;
    std::optional<double> median_gbps;
    /// What the hardware would allow, payload in GB/s; best_gbps is also given as a share of it.
    std::optional<double> floor_gbps;
    /// Figures that are no payload GB/s: latencies, SMs, copies; the unit ends the name.
    std::vector<std::pair<std::string, double>> figures;
    /// Whether what arrived was checked and right.
    std::optional<bool> exact;
    /// Why there is no figure.
    std::string error;

    template <class T>
    Result& with(std::string key, T const& value) {
        if constexpr (std::is_same_v<T, bool>) {
            parameters.emplace_back(std::move(key), value ? "true" : "false");
        } else if constexpr (std::is_integral_v<T>) {
            parameters.emplace_back(std::move(key), std::to_string(value));
        } else if constexpr (std::is_floating_point_v<T>) {
            parameters.emplace_back(std::move(key), number(value));
        } else {
            parameters.emplace_back(std::move(key), quoted(value));
        }
        return *this;
    }
    Result& figure(std::string key, double value) {
        figures.emplace_back(std::move(key), value);
        return *this;
    }
};

/// One JSON object on one line.
inline std::string json_of(Result const& result) {
    std::string out = "{\"name\": " + quoted(result.name);
    auto const put = [&out](std::string const& key, std::string const& value) {
        out += ", " + quoted(key) + ": " + value;
    };
    for (auto const& [key, value] : result.parameters) put(key, value);
    if (result.best_gbps) put("best_gbps", number(*result.best_gbps));
    if (result.median_gbps) put("median_gbps", number(*result.median_gbps));
    if (result.floor_gbps) put("floor_gbps", number(*result.floor_gbps));
    if (result.best_gbps && result.floor_gbps && *result.floor_gbps > 0) {
        put("share_of_floor", number(*result.best_gbps / *result.floor_gbps));
    }
    for (auto const& [key, value] : result.figures) put(key, number(value));
    if (result.exact) put("exact", *result.exact ? "true" : "false");
    if (!result.error.empty()) put("error", quoted(result.error));
    return out + '}';
}

}  // namespace mgi::bench
