// mgi-peer-mpi: the exchange through MPI. Variants: alltoallv (bcast for a broadcast), which moves
// all rows at once, and pipelined, a segment at a time by MPI_Isend and MPI_Irecv.

#include <mpi.h>

#include <limits>

#include "peers/bulk.hpp"
#include "peers/messages.hpp"

namespace mgi::peers {
namespace {

void check(int status, char const* what) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int size = 0;
    MPI_Error_string(status, text, &size);
    throw Error(ErrorCode::Internal, std::string(what) + ": " + text);
}

class MpiMessages : public Messages {
public:
    explicit MpiMessages(Options const& options)
        : Messages(options),
          sends_(count(), MPI_REQUEST_NULL),
          receives_(count(), MPI_REQUEST_NULL) {}

    ~MpiMessages() override {
        for (MPI_Request& request : receives_) {
            if (request == MPI_REQUEST_NULL) continue;
            MPI_Cancel(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }

private:
    static constexpr int kTag = 1;

    void meet() override { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
    void start_send(Message const& message) override {
        check(MPI_Isend(message.data, int(message.bytes), MPI_BYTE, int(message.peer), kTag,
                        MPI_COMM_WORLD, &sends_[message.number]),
              "MPI_Isend");
    }
    bool sent(std::uint32_t number) override { return is_over(sends_[number]); }
    void start_receive(Message const& message) override {
        check(MPI_Irecv(message.data, int(message.bytes), MPI_BYTE, int(message.peer), kTag,
                        MPI_COMM_WORLD, &receives_[message.number]),
              "MPI_Irecv");
    }
    bool received(std::uint32_t number) override { return is_over(receives_[number]); }

    static bool is_over(MPI_Request& request) {
        int over = 0;
        check(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
        return over != 0;
    }

    std::vector<MPI_Request> sends_;
    std::vector<MPI_Request> receives_;
};

class MpiCollectives : public Collectives {
public:
    explicit MpiCollectives(Options const& options) {
        check(MPI_Type_contiguous(int(options.rows.row_bytes), MPI_BYTE, &row_),
              "MPI_Type_contiguous");
        check(MPI_Type_commit(&row_), "MPI_Type_commit");
    }
    ~MpiCollectives() override { MPI_Type_free(&row_); }

    void barrier() override { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
    void alltoall(std::vector<std::uint64_t>& to, std::vector<std::uint64_t>& from) override {
        check(
            MPI_Alltoall(to.data(), 1, MPI_UINT64_T, from.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD),
            "MPI_Alltoall");
    }
    void alltoallv(char* out, std::vector<std::uint64_t> const& to, char* in,
                   std::vector<std::uint64_t> const& from) override {
        Counts const mine(to);
        Counts const theirs(from);
        check(MPI_Alltoallv(out, mine.counts.data(), mine.places.data(), row_, in,
                            theirs.counts.data(), theirs.places.data(), row_, MPI_COMM_WORLD),
              "MPI_Alltoallv");
    }
    void broadcast(char* rows, std::uint64_t count) override {
        check(MPI_Bcast(rows, as_int(count), row_, 0, MPI_COMM_WORLD), "MPI_Bcast");
    }

private:
    static int as_int(std::uint64_t number) {
        if (number > std::uint64_t(std::numeric_limits<int>::max())) {
            throw Error(ErrorCode::InvalidArgument,
                        std::to_string(number) + " rows are more than MPI counts: give fewer");
        }
        return int(number);
    }

    struct Counts {
        std::vector<int> counts;
        std::vector<int> places;

        explicit Counts(std::vector<std::uint64_t> const& rows) {
            std::uint64_t place = 0;
            for (std::uint64_t const some : rows) {
                counts.push_back(as_int(some));
                places.push_back(as_int(place));
                place += some;
            }
        }
    };

    MPI_Datatype row_{};
};

/// Both ways, in one process.
class Mpi : public Member {
public:
    Mpi(Options const& options, perf::Rows const& rows)
        : bulk_(options, rows, std::make_unique<MpiCollectives>(options)) {
        if (options.broadcast) return;
        pipelined_ = std::make_unique<PipelinedMember>(options, rows,
                                                       std::make_unique<MpiMessages>(options));
    }
    ~Mpi() override = default;

    Ran run(std::string_view variant) override {
        return variant == "pipelined" && pipelined_ != nullptr ? pipelined_->run(variant)
                                                               : bulk_.run(variant);
    }

private:
    BulkMember bulk_;
    std::unique_ptr<PipelinedMember> pipelined_;
};

std::unique_ptr<Member> make(Options const& options, OwnRows const& rows, Driver&) {
    int rank = 0;
    int size = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (std::uint32_t(rank) != options.rank || std::uint32_t(size) != options.processes) {
        throw Error(ErrorCode::InvalidArgument,
                    "the launcher says rank " + std::to_string(options.rank) + " of " +
                        std::to_string(options.processes) + ", MPI says rank " +
                        std::to_string(rank) + " of " + std::to_string(size));
    }
    return std::make_unique<Mpi>(options, only(options, rows));
}

}  // namespace
}  // namespace mgi::peers

int main(int count, char** words) {
    MPI_Init(&count, &words);
    int const status = mgi::peers::run_member({words + 1, words + count}, mgi::peers::make);
    if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status;
}
