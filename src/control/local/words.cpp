#include "control/local/words.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "control/local/socket.hpp"
#include "core/private_files.hpp"
#include "core/text.hpp"
#include "core/variable.hpp"

namespace mgi::control {

namespace {

constexpr char const* kSystemSocket = "/run/mgi/agent.sock";

std::string bounded_bytes(Json const& message, char const* field) {
    std::string bytes = bytes_in(message, field);
    if (bytes.size() > kMostOpaqueBytes) {
        throw Error(ErrorCode::InvalidArgument,
                    std::string("field '") + field + "' has " + std::to_string(bytes.size()) +
                        " bytes: expected at most " + std::to_string(kMostOpaqueBytes));
    }
    return bytes;
}

}  // namespace

void add_spec(Json& message, ClusterChannelSpec const& spec) {
    message["name"] = spec.name;
    message["sources"] = runs_of(spec.sources);
    message["destinations"] = runs_of(spec.destinations);
    message["routing"] = spec.routing;
    message["schema"] = bytes_value(spec.schema);
    message["options"] = bytes_value(spec.options);
    message["rules"] = {{"relay_gpus", spec.relay_gpus},
                        {"relay_host", spec.relay_host},
                        {"max_nics", spec.max_nics}};
}

ClusterChannelSpec spec_in(Json const& message) {
    ClusterChannelSpec spec;
    spec.name = text_in(message, "name", 256);
    spec.sources = ids_in(message, "sources");
    spec.destinations = ids_in(message, "destinations");
    spec.routing = static_cast<std::uint32_t>(number_in(message, "routing", 4));
    spec.schema = bounded_bytes(message, "schema");
    spec.options = bounded_bytes(message, "options");
    if (!has(message, "rules") || !message["rules"].is_object()) {
        throw Error(ErrorCode::InvalidArgument, "field 'rules' is missing: expected a map");
    }
    Json const& rules = message["rules"];
    spec.relay_gpus = flag_in(rules, "relay_gpus");
    spec.relay_host = flag_in(rules, "relay_host");
    spec.max_nics = number32_in(rules, "max_nics");
    if (spec.sources.empty() || spec.destinations.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    "channel '" + spec.name + "' has no " +
                        (spec.sources.empty() ? "sources" : "destinations"));
    }
    return spec;
}

Json json_of(ClusterPlan const& plan) {
    Json message;
    add_spec(message, plan.spec);
    message["channel"] = plan.channel;
    message["generation"] = plan.generation;
    message["directory"] = bytes_value(plan.directory);
    message["table"] = bytes_value(plan.table);
    message["request"] = plan.request;
    return message;
}

ClusterPlan plan_in(Json const& message) {
    ClusterPlan plan;
    plan.spec = spec_in(message);
    plan.channel = number32_in(message, "channel");
    plan.generation = number_in(message, "generation", UINT64_MAX);
    plan.directory = bytes_in(message, "directory");
    plan.table = bytes_in(message, "table");
    plan.request = text_in(message, "request");
    return plan;
}

std::vector<std::string> shares_in(Json const& message, std::uint32_t size) {
    std::vector<std::string> shares;
    if (has(message, "data") && message["data"].is_array()) {
        for (Json const& share : message["data"]) {
            auto const bytes = share.is_binary() ? share.get_binary() : Json::binary_t();
            shares.emplace_back(bytes.begin(), bytes.end());
        }
    }
    if (shares.size() == size) return shares;
    throw Error(ErrorCode::Internal, "the agent answered a gather of " + std::to_string(size) +
                                         " ranks with what " + std::to_string(shares.size()) +
                                         " have said; update the older of the two");
}

Json error_value(ErrorCode code, std::string const& message) {
    return {{"code", static_cast<std::uint32_t>(code)}, {"message", message}};
}

Error error_in(Json const& value) {
    if (!value.is_object()) return {ErrorCode::Internal, "an error of the agent's without a text"};
    auto const code = number_in(value, "code", static_cast<std::uint32_t>(ErrorCode::Internal));
    return {code == 0 ? ErrorCode::Internal : static_cast<ErrorCode>(code),
            text_in(value, "message", kMostRequestBytes)};
}

std::string default_job_secret() {
    if (std::string secret(variable("MGI_JOB_SECRET")); !secret.empty()) return secret;
    std::string const file(variable("MGI_JOB_SECRET_FILE"));
    if (file.empty()) return "";
    auto const refuse = [&](std::string const& why) {
        return Error(ErrorCode::InvalidArgument, "MGI_JOB_SECRET_FILE=" + file + ": " + why);
    };
    Fd const fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found{};
    if (!fd || fstat(fd.get(), &found) != 0) throw refuse(std::system_category().message(errno));
    if ((found.st_mode & 0077) != 0) {
        throw refuse("others than its owner may read it: chmod 600 " + file);
    }
    std::string secret(1024, '\0');
    ssize_t const size = read(fd.get(), secret.data(), secret.size());
    secret.resize(std::size_t(std::max<ssize_t>(size, 0)));
    secret = plain_text(std::move(secret));
    secret.resize(std::min(secret.find('\n'), secret.size()));
    if (secret.empty()) throw refuse("its first line, which is to be the secret, is empty");
    return secret;
}

std::string own_socket() {
    if (std::string path(variable("MGI_AGENT")); !path.empty()) return path;
    std::string const folder(variable("XDG_RUNTIME_DIR"));
    // Who else may write there could have an agent of his own wait for this user's applications.
    bool const own = geteuid() != 0 && is_private_folder(folder);
    return own ? folder + "/mgi/agent.sock" : kSystemSocket;
}

std::string default_socket() {
    std::string own = own_socket();
    bool const asked_for = !variable("MGI_AGENT").empty();
    return asked_for || access(own.c_str(), F_OK) == 0 ? own : kSystemSocket;
}

}  // namespace mgi::control
