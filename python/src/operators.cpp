#include <mgi/operator_turn.hpp>
#include <mgi/operators.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "errors.hpp"
#include "gpu_allocator.hpp"
#include "operator_bindings.hpp"
#include "operators/rules.hpp"
#include "options.hpp"

namespace mgi::python {
namespace {

// Of an option that MGI may be left to choose: `Choice::Auto`, `On` or `Off`.
template <class Choice>
Choice choice_named(char const* option, std::string const& name) {
    if (name == "auto") return Choice::Auto;
    if (name == "on") return Choice::On;
    if (name == "off") return Choice::Off;
    throw Error(ErrorCode::InvalidArgument,
                std::string(option) + " is '" + name + "'; there are: auto, on, off");
}

}  // namespace

Broadcast broadcast_named(std::string const& name) {
    return choice_named<Broadcast>("broadcast", name);
}

JoinKind join_kind_named(std::string const& name) {
    static constexpr std::pair<char const*, JoinKind> known[] = {
        {"inner", JoinKind::Inner}, {"left", JoinKind::Left}, {"right", JoinKind::Right},
        {"full", JoinKind::Full},   {"semi", JoinKind::Semi}, {"anti", JoinKind::Anti},
    };
    for (auto const& [text, kind] : known) {
        if (name == text) return kind;
    }
    throw Error(
        ErrorCode::InvalidArgument,
        "there is no join of kind '" + name + "'; there are: inner, left, right, full, semi, anti");
}

OperatorOptions operator_options(nb::dict const& options) {
    OperatorOptions made;
    read_option(options, "groups", made.groups);
    read_option(options, "by_reference", made.by_reference);
    read_option(options, "receive_limit", made.receive_limit);
    read_option(options, "spill_limit", made.spill_limit);
    read_option(options, "segment_bytes", made.segment_bytes);
    read_option(options, "one_endpoint_bytes", made.one_endpoint_bytes);
    std::int64_t patience = made.patience.count();
    read_option(options, "patience", patience);
    made.patience = std::chrono::milliseconds(patience);
    std::string hash = "murmur3";
    read_option(options, "hash", hash);
    made.hash = hash_named(hash);
    std::string two_level = "auto";
    read_option(options, "two_level", two_level);
    made.two_level = choice_named<TwoLevel>("two_level", two_level);
    std::map<int, std::uintptr_t> streams;
    read_option(options, "gpu_streams", streams);
    for (auto const& [gpu, stream] : streams) {
        made.gpu_streams[gpu] =
            reinterpret_cast<void*>(stream);  // NOLINT(performance-no-int-to-ptr)
    }
    read_option(options, "gpu_out", made.gpu_out);
    if (options.contains("gpu_allocator")) {
        made.gpu_allocator = gpu_allocator_of(nb::object(options["gpu_allocator"]));
    }
    return made;
}

std::shared_ptr<void const> stream_owners(nb::dict const& options) {
    if (!options.contains("gpu_stream_owners")) return nullptr;
    return hold_object(nb::object(options["gpu_stream_owners"]));
}

std::vector<Aggregate> aggregates_of(std::vector<AggregateTuple> const& wanted) {
    std::vector<Aggregate> aggregates;
    aggregates.reserve(wanted.size());
    for (auto const& [function, column, name] : wanted) {
        aggregates.push_back({operators::function_named(function), column, name});
    }
    return aggregates;
}

namespace {

struct OnHost {
    using AnyTable = Table;
    static auto exchange(auto&&... given) { return mgi::exchange(given...); }
    static auto group_by(auto&&... given) { return mgi::group_by(given...); }
    static auto join(auto&&... given) { return mgi::join(given...); }
    static auto sort(auto&&... given) { return mgi::sort(given...); }
};

/// A call of several processes, from before its tables are read.
class TurnHolder {
public:
    TurnHolder(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints)
        : runtime_(holder.get().impl()),
          turn_(std::make_shared<OperatorTurn>(holder.get(), endpoints_of(endpoints))) {}

    /// Tells the others why this process does not call, if it has not; without the GIL, and sees Ctrl-C.
    void decline(std::string const& what, std::string const& code, std::string const& why,
                 std::int64_t patience) {
        OperatorOptions options;
        options.patience = std::chrono::milliseconds(patience);
        Error const error(code_named(code), why);
        run_beside<bool>(
            [turn = turn_, what, error, options](std::atomic<bool> const&) {
                turn->decline(what, error, options);
                return true;
            },
            [impl = runtime_] {
                if (auto const runtime = impl.lock()) runtime->coordinator().interrupt();
            });
    }

private:
    std::weak_ptr<Runtime::Impl> runtime_;
    std::shared_ptr<OperatorTurn> turn_;
};

}  // namespace

void bind_operators(nb::module_& module) {
    nb::class_<TurnHolder>(module, "OperatorTurn")
        .def(nb::init<RuntimeHolder&, std::vector<EndpointPair> const&>(), nb::arg("runtime"),
             nb::arg("endpoints"))
        .def("decline", &TurnHolder::decline, nb::arg("what"), nb::arg("code"), nb::arg("why"),
             nb::arg("patience"));
    OperatorBindings<OnHost>::define(module, "", "");
}

}  // namespace mgi::python
