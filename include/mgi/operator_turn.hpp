/// \file
/// What fails in a process before it calls an operator together with others: that is told to them, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/operators.hpp>

namespace mgi {

/// The operator (<mgi/operators.hpp>) that this process is about to call at these endpoints, from before its tables are
/// there. An operator tells the other processes by itself what fails in it; a process that cannot even call it, since reading the
/// tables has failed or an argument is wrong, declines, so that the others need not wait for as long as their patience.
///
///     OperatorTurn turn(runtime, endpoints);
///     try {
///         exchange(runtime, endpoints, read_tables(), {"key"});
///     } catch (Error const& error) {
///         turn.decline("exchange", error);  // nothing where exchange has begun
///         throw;
///     }
///
/// Processes count the operators that they call together: one that was declined counts, and the next one is called by all
/// again. Used by one thread, which calls one operator at these endpoints' processes meanwhile.
class OperatorTurn {
public:
    /// Throws Error(NotFound) for endpoints that are not known, InvalidArgument where this process has none of them.
    OperatorTurn(Runtime const& runtime, std::vector<Endpoint> const& endpoints);

    /// The others get Error(why.code()) with this process' rank and `why`, at once or when they call within
    /// `options.patience`. Waits for none of them, and up to 5 s for the cluster. Does nothing where the operator has
    /// begun, and where all endpoints are this process'. `what` names the operator.
    void decline(std::string const& what, Error const& why, OperatorOptions const& options = {});

private:
    Runtime runtime_;
    std::vector<Endpoint> endpoints_;
    bool alone_;
    std::uint64_t before_ = 0;  // operators that had begun
};

}  // namespace mgi
