// Channels that several processes make together: the one of the first source plans it, one process of each
// server makes its part there, the others find that, and all of them have it or none.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/log.hpp"
#include "runtime/agreement.hpp"
#include "runtime/checks.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// A part's address is taken at random of a large region: one that is not free somewhere is rare.
constexpr int kMostAttempts = 8;
// What all processes say first, also one that cannot even ask for the channel.
constexpr char const* kFirstStep = "channel made";

Error as_error(std::exception const& error) {
    auto const* const own = dynamic_cast<Error const*>(&error);
    if (own != nullptr) return *own;
    bool const memory = dynamic_cast<std::bad_alloc const*>(&error) != nullptr;
    return {memory ? ErrorCode::OutOfMemory : ErrorCode::Internal, error.what()};
}

std::vector<Said> all_said(std::vector<std::string> const& shares) {
    std::vector<Said> all;
    all.reserve(shares.size());
    // Of all but one there is nothing where that one has failed.
    for (std::string const& share : shares) all.push_back(share.empty() ? Said() : decode(share));
    return all;
}

}  // namespace

// Of one process; it gives up what it has unless all have the channel.
class Runtime::Impl::Founding {
public:
    Founding(Impl& runtime, ChannelSpec const& spec, Company const& company)
        : runtime_(runtime), spec_(spec), company_(company), leads_(company.rank_of[0] == me()) {
        auto const index = [&](std::size_t i) {
            auto const at =
                std::lower_bound(company.ranks.begin(), company.ranks.end(), company.rank_of[i]);
            return static_cast<std::uint32_t>(at - company.ranks.begin());
        };
        for (std::size_t s = 0; s < spec.sources.size(); ++s) {
            members_.source_member.push_back(index(s));
            members_.source_on_gpu.push_back(company.on_gpu[s]);
        }
        for (std::size_t d = 0; d < spec.destinations.size(); ++d) {
            members_.destination_member.push_back(index(spec.sources.size() + d));
            members_.destination_on_gpu.push_back(company.on_gpu[spec.sources.size() + d]);
        }
        members_.me = company.me;
        members_.count = static_cast<std::uint32_t>(company.ranks.size());
        for (std::uint32_t const rank : company.ranks) {
            members_.names.push_back("rank " + std::to_string(rank));
        }
        find_servers();
    }
    Founding(Founding const&) = delete;
    Founding& operator=(Founding const&) = delete;
    ~Founding() {
        if (done_) return;
        drop();
        if (leads_ && id_ != 0) runtime_.coordinator_->delete_channel(id_);
    }

    Channel found() {
        for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
            found_terms();
            bool taken = make_or_find("channel opened", crossing_ ? makes_ : !makes_);
            if (third_step_) taken |= make_or_find("channel opened by all", !makes_);
            if (!taken && members_.on_gpus()) taken = !use_shared_gpus();
            if (!taken) {
                if (crossing_) channel_->impl()->crossing()->begin();
                done_ = true;
                return *channel_;
            }
            drop();
        }
        throw Error(
            ErrorCode::OutOfMemory,
            name_of(spec_) +
                ": no address was found that is free in all of its processes, or no way to share "
                "their GPUs' memory (set MGI_GPU_IPC=off, or MGI_GPU_DIRECT=off where NICs are to "
                "reach it), in " +
                std::to_string(kMostAttempts) + " attempts");
    }

private:
    // Numbers the servers, and says who makes the part of each: the first of its members, or who leads.
    void find_servers() {
        std::map<std::string, std::uint32_t> numbers;
        for (std::string const& name : company_.servers) {
            auto const number = static_cast<std::uint32_t>(numbers.size());
            members_.server.push_back(numbers.try_emplace(name, number).first->second);
        }
        if (members_.on_gpus()) {
            members_.machine = members_.server;
            std::iota(members_.server.begin(), members_.server.end(), 0U);
        }
        crossing_ = members_.on_gpus() || numbers.size() > 1;
        if (!crossing_) members_.server.clear();
        std::uint32_t const leader = members_.source_member[0];
        std::uint32_t first = members_.me;
        for (std::uint32_t m = 0; m < members_.count; ++m) {
            if (members_.is_here(m)) first = std::min(first, m);
            if (!crossing_) continue;
            // Those who do not make a part wait until it is made.
            auto const& on = members_.server;
            third_step_ |= std::count(on.begin(), on.end(), on[m]) > 1;
            members_.names[m] += " on server " + company_.servers[m];
        }
        makes_ = members_.is_here(leader) ? leads_ : first == members_.me;
    }

    // All say that they agree; who leads makes its part and says what the others need for theirs.
    void found_terms() {
        Said mine;
        mine.fields = fields_of(spec_);
        step(mine, [&] {
            runtime_.check_members(spec_, members_);
            if (crossing_) {
                mine.addresses = runtime_.network().addresses(company_.on_one_server());
                mine.fields.emplace_back("MGI_WIRE_ENCRYPTION",
                                         runtime_.network().encrypts() ? "on" : "off");
            }
            if (members_.on_gpus()) {
                mine.gpus = gpu_card(spec_, runtime_.devices(), runtime_.coordinator_->server(),
                                     may_be_peers(spec_, members_));
                complete(mine.gpus);
                if (!company_.on_one_server()) {
                    mine.direct = direct_card(spec_, runtime_.devices(), runtime_.network(),
                                              runtime_.direct_refusal_);
                }
            }
            if (!leads_) return;
            if (id_ == 0) id_ = runtime_.coordinator_->create_channel(spec_);
            mine.id = id_;
            if (crossing_) {
                mine.terms = Terms::of(runtime_.plan_together(spec_, members_),
                                       ChannelNetwork::relays() && !company_.on_one_server());
                if (company_.on_one_server() && may_be_peers(spec_, members_)) {
                    mine.terms->for_peers = runtime_.plan_for_peers(spec_, members_);
                }
            }
            if (!crossing_) make();
        });
        elsewhere_ = {};
        std::vector<GpuCard> cards;
        std::vector<DirectCard> direct;
        for (Said& said : say(kFirstStep, mine)) {
            id_ = std::max(id_, said.id);
            if (said.terms) elsewhere_.terms = said.terms;
            elsewhere_.addresses.push_back(std::move(said.addresses));
            cards.push_back(std::move(said.gpus));
            direct.push_back(said.direct.value_or(DirectCard()));
        }
        if (members_.on_gpus()) {
            note_cards(members_, cards, spec_);
            members_.in_place &= elsewhere_.terms && elsewhere_.terms->for_peers;
            if (members_.in_place) elsewhere_.terms->plan = *elsewhere_.terms->for_peers;
            if (!company_.on_one_server()) note_direct(members_, direct, spec_);
            doors_.clear();
            for (GpuCard const& card : cards) doors_.push_back(card.door);
        }
        if (crossing_ && !elsewhere_.terms) {
            throw Error(ErrorCode::Internal, name_of(spec_) + ": nobody said what its plan is");
        }
    }

    // Without what has been refused before, and with a door.
    void complete(GpuCard& card) {
        if (card.home.empty()) return;
        GpuRefusals const& refused = runtime_.gpu_refusals_;
        if (refused.own()) {
            card.destinations.clear();
            card.maps = false;
        }
        for (std::uint32_t m = 0; m < members_.count; ++m) {
            if (refused.of(company_.ranks[m])) card.without.insert(m);
        }
        try {
            door_ = std::make_unique<GpuDoor>();
            card.door = door_->name();
        } catch (Error const& error) {
            log::warn("{}: links bring all rows of GPUs by the host's memory: {}", name_of(spec_),
                      error.what());
            card = {};
        }
    }

    // Makes this process' part; false where its GPUs' memory cannot be shared as it was thought.
    bool make(Said& mine) {
        make();
        if (!members_.on_gpus()) return true;
        if (members_.is_direct() && !reach_gpus()) return false;
        try {
            mine.shared_gpus = channel_->impl()->share_gpus(doors_);
            return true;
        } catch (Error const& error) {
            if (!is_refusal(error) || runtime_.gpu_refusals_.own()) throw;
            runtime_.gpu_refusals_.note_own();
            log::warn(
                "{}: other processes cannot copy into this one's GPUs, and links bring their rows "
                "by the host's memory: {}",
                name_of(spec_), error.what());
            return false;
        }
    }

    // False where NICs cannot reach its GPUs' memory after all.
    bool reach_gpus() {
        try {
            channel_->impl()->crossing()->reach_gpus();
            return true;
        } catch (Error const& error) {
            if (!is_refusal(error) || insists_on_gpu_direct()) throw;
            runtime_.direct_refusal_.note(error.what());
            log::warn(
                "{}: NICs do not reach this process' GPUs, and what goes to and from other servers "
                "lies in the host's memory: {}",
                name_of(spec_), error.what());
            return false;
        }
    }

    // Some make their server's part or find it, all hear how it went. True: all try again.
    bool make_or_find(std::string const& what, bool acts) {
        Said mine;
        step(mine, [&] {
            if (!acts) return;
            mine.taken = !(makes_ ? make(mine) : open());
        });
        auto const all = say(what, mine);
        shared_gpus_.clear();
        for (Said const& said : all) shared_gpus_.push_back(said.shared_gpus);
        return std::any_of(all.begin(), all.end(), [](Said const& said) { return said.taken; });
    }

    // All open what they may write of others' GPUs' memory, and hear how it went. False: all try again.
    bool use_shared_gpus() {
        Said mine;
        step(mine, [&] {
            if (door_ == nullptr) return;
            auto const refused = channel_->impl()->use_shared(shared_gpus_, *door_);
            for (auto const& [m, why] : refused) {
                runtime_.gpu_refusals_.note(company_.ranks[m]);
                log::warn(
                    "{}: this process cannot copy into the GPUs of {}, and links bring its rows by "
                    "the host's memory: {}",
                    name_of(spec_), members_.names[m], why);
            }
            mine.taken = !refused.empty();
            door_.reset();
            if (!members_.in_place || mine.taken) return;
            runtime_.complete_channel(channel_->impl());
            is_known_ = true;
        });
        auto const all = say("GPUs shared", mine);
        return std::none_of(all.begin(), all.end(), [](Said const& said) { return said.taken; });
    }

    [[nodiscard]] std::uint32_t me() const { return company_.job.rank; }

    // What fails here is said to the others, so that nobody waits for this process in vain.
    template <class Work>
    static void step(Said& said, Work const& work) {
        try {
            work();
        } catch (std::exception const& error) {
            said.error = as_error(error);
        }
    }

    // All say how far they are; throws in all what one of them has failed with.
    std::vector<Said> say(std::string const& what, Said const& mine) {
        std::vector<Said> all;
        try {
            bool const failed = mine.error.has_value();
            all = all_said(runtime_.gather(company_, what, encode(mine), {}, failed));
        } catch (Error const& error) {
            // An own error says more than that others did not come to hear it.
            if (mine.error) throw Error(*mine.error);
            throw Error(error.code(), name_of(spec_) + ": " + error.what());
        }
        check_agreement(all, members_.names, name_of(spec_));
        return all;
    }

    void make() {
        MadePart const made = runtime_.make_part(id_, spec_, members_, elsewhere_);
        channel_ = made.channel;
        is_known_ = !members_.in_place;
        if (!members_.on_gpus()) runtime_.coordinator_->put_part(id_, made.descriptor);
    }

    bool open() {
        int const descriptor = runtime_.coordinator_->get_part(id_);
        try {
            channel_ = runtime_.open_part(id_, spec_, members_, descriptor, elsewhere_);
        } catch (...) {
            close(descriptor);
            throw;
        }
        close(descriptor);
        return channel_.has_value();
    }

    void drop() noexcept {
        if (!channel_) return;
        if (!is_known_) {
            runtime_.end_work(*channel_->impl());
            channel_.reset();
            return;
        }
        try {
            runtime_.leave(*channel_->impl());
        } catch (std::exception const& error) {
            log::warn("{}: an incomplete channel is left: {}", name_of(spec_), error.what());
        }
        channel_.reset();
    }

    Impl& runtime_;
    ChannelSpec const& spec_;
    Company const& company_;
    bool const leads_;
    PartMembers members_;
    bool crossing_ = false;  // servers are crossed
    bool makes_ = false;     // this server's part
    bool third_step_ = false;
    Elsewhere elsewhere_;
    std::unique_ptr<GpuDoor> door_;
    std::vector<std::string> doors_;       // by member
    std::vector<SharedGpus> shared_gpus_;  // the same
    std::uint32_t id_ = 0;
    std::optional<Channel> channel_;
    bool is_known_ =
        true;  // to the runtime; of one that is read in place only once its tables are built
    bool done_ = false;
};

Channel Runtime::Impl::create_together(ChannelSpec const& spec) {
    std::vector<Endpoint> endpoints = spec.sources;
    endpoints.insert(endpoints.end(), spec.destinations.begin(), spec.destinations.end());
    Company company;
    try {
        company = company_of(endpoints);
    } catch (Error const& error) {
        throw Error(error.code(), name_of(spec) + ": " + error.what());
    }
    if (spec.sources.empty() || spec.destinations.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    name_of(spec) + " has no " + (spec.sources.empty() ? "source" : "destination") +
                        " endpoints");
    }
    ChannelSpec fitting = spec;
    // What is left may be nothing: on GPUs no batch can be kept. Not every process knows who is on one.
    auto const received = company.on_gpu.begin() + std::ptrdiff_t(spec.sources.size());
    bool const keeps = std::find(received, company.on_gpu.end(), false) != company.on_gpu.end();
    if (!keeps && spec.options.receive_limit == UINT64_MAX) fitting.options.receive_limit = 0;
    return Founding(*this, fitting, company).found();
}

// Nobody waits then for this process, which has failed before it could make the channel with the others.
void Runtime::Impl::decline_channel(std::vector<Endpoint> const& endpoints,
                                    Error const& why) noexcept {
    try {
        Company const company = company_of(endpoints);
        Said said;
        said.error = why;
        (void)gather(company, kFirstStep, encode(said), {}, true);
    } catch (std::exception const& error) {
        log::debug("nobody is told that a channel has failed here: {}", error.what());
    }
}

}  // namespace mgi
