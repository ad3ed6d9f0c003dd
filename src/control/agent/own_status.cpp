#include "control/agent/own_status.hpp"

#include <nlohmann/json.hpp>

#include <mgi/error.hpp>

namespace mgi::control {

std::string own_status(std::string const& status, std::string const& owner) {
    using Ordered = nlohmann::ordered_json;
    Ordered json = Ordered::parse(status, nullptr, false);
    if (!json.is_object()) {
        throw Error(ErrorCode::Internal,
                    "the controller's status is no JSON; update the older side");
    }
    for (char const* list : {"endpoints", "channels"}) {
        Ordered own = Ordered::array();
        for (Ordered& item : json[list]) {
            if (item.value("owner", "") == owner) own.push_back(std::move(item));
        }
        json[list] = std::move(own);
    }
    json["failures"] = Ordered::array();
    return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

}  // namespace mgi::control
