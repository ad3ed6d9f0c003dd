/// \file
/// JSON objects whose fields are known: each is read once, by type, and what is left is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "topology/readers/source.hpp"

namespace mgi::topology {

class JsonObject {
public:
    /// `where` is what errors call it: "links[2]", or empty for the whole file.
    JsonObject(Source const& source, nlohmann::json const& value, std::string where)
        : source_(source), value_(value), where_(std::move(where)) {
        if (!value.is_object()) fail("", "is no object ({...})");
    }

    /// Null where the field is absent.
    nlohmann::json const* get(std::string const& name) {
        known_.insert(name);
        auto const at = value_.find(name);
        return at == value_.end() ? nullptr : &*at;
    }

    std::string text(std::string const& name) {
        auto const* const found = get(name);
        if (found == nullptr) return {};
        if (!found->is_string() || found->get_ref<std::string const&>().empty()) {
            fail(name, "is " + shown(*found) + "; expected text");
        }
        return found->get<std::string>();
    }

    std::string required_text(std::string const& name) {
        if (get(name) == nullptr) fail(name, "is missing; expected text");
        return text(name);
    }

    /// From 0 to `most`.
    std::optional<double> number(std::string const& name, double most) {
        auto const* const found = get(name);
        if (found == nullptr) return std::nullopt;
        double const value = found->is_number() ? found->get<double>() : -1;
        if (!(value >= 0 && value <= most)) {
            fail(name, "is " + shown(*found) + "; expected a number from 0 to " +
                           std::to_string(std::int64_t(most)));
        }
        return value;
    }

    std::optional<std::int64_t> integer(std::string const& name) {
        auto const* const found = get(name);
        if (found == nullptr) return std::nullopt;
        auto const value = number(name, 1e9);
        if (!found->is_number_integer()) {
            fail(name, "is " + shown(*found) + "; expected a whole number");
        }
        return std::int64_t(*value);
    }

    bool flag(std::string const& name) {
        auto const* const found = get(name);
        if (found == nullptr) return false;
        if (!found->is_boolean()) {
            fail(name, "is " + shown(*found) + "; expected true or false");
        }
        return found->get<bool>();
    }

    /// Empty where the field is absent.
    std::vector<nlohmann::json> list(std::string const& name) {
        auto const* const found = get(name);
        if (found == nullptr) return {};
        if (!found->is_array()) fail(name, "is " + shown(*found) + "; expected a list ([...])");
        return found->get<std::vector<nlohmann::json>>();
    }

    std::vector<std::string> texts(std::string const& name) {
        std::vector<std::string> found;
        for (nlohmann::json const& item : list(name)) {
            if (!item.is_string()) {
                fail(name + "[" + std::to_string(found.size()) + "]",
                     "is " + shown(item) + "; expected text");
            }
            found.push_back(item.get<std::string>());
        }
        return found;
    }

    /// Behind the last field: throws where there is one that nobody asked for.
    void done() const {
        for (auto const& [name, value] : value_.items()) {
            if (known_.contains(name)) continue;
            std::string names;
            for (std::string const& other : known_) names += (names.empty() ? "" : ", ") + other;
            fail("", "has no field " + in_quotes(name) + "; there are: " + names);
        }
    }

    [[noreturn]] void fail(std::string const& field, std::string const& what) const {
        std::string full = where_.empty() || field.empty() ? where_ + field : where_ + "." + field;
        if (full.empty()) full = "the whole";
        source_.fail(0, full + " " + what);
    }

private:
    static std::string shown(nlohmann::json const& value) {
        if (value.is_string()) return in_quotes(value.get_ref<std::string const&>());
        return in_quotes(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    }

    Source const& source_;
    nlohmann::json const& value_;
    std::string where_;
    std::set<std::string> known_;
};

}  // namespace mgi::topology
