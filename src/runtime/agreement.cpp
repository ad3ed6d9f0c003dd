#include "runtime/agreement.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <type_traits>

#include "core/text.hpp"
#include "runtime/checks.hpp"

namespace mgi {

namespace {

constexpr std::size_t kMostShown = 80;  // bytes of a field; longer ones are compared by their hash
constexpr char const* kTermsVersion = "8";  // of these words

std::string hashed(std::string_view text) {
    return std::string(text.substr(0, kMostShown)) + "... (" + std::to_string(text.size()) +
           " bytes, hash " + hex_text(text_hash(text)) + ")";
}

// Lines and tabs are what keeps words apart.
std::string one_line(std::string text) {
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    return text;
}

std::string value_of(std::string text) {
    bool const plain = text.size() <= kMostShown && text == one_line(text);
    return plain ? std::move(text) : one_line(hashed(text));
}

std::string ids_text(std::vector<Endpoint> const& endpoints) {
    std::string text;
    for (Endpoint const endpoint : endpoints) {
        text += (text.empty() ? "" : " ") + std::to_string(endpoint.id);
    }
    return text;
}

[[noreturn]] void refuse() {
    throw Error(ErrorCode::Internal,
                "another process makes channels in words that this version does not know; let all "
                "processes use the same version");
}

template <class Number = std::uint32_t>
Number number(std::string_view text, int base = 10) {
    Number value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) refuse();
    return value;
}

// What of a plan is the same on all servers; each works out the sizes for itself.
std::array<std::uint32_t*, 8> numbers_of(Plan& plan) {
    return {&plan.segment_rows, &plan.text_bytes, &plan.slots,      &plan.credits,
            &plan.lanes,        &plan.tile_rows,  &plan.chunk_rows, &plan.max_groups};
}

template <class Bytes>
std::string hex(Bytes const& bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (auto const byte : bytes) {
        text += kDigits[static_cast<std::uint8_t>(byte) >> 4];
        text += kDigits[static_cast<std::uint8_t>(byte) & 15];
    }
    return text;
}

template <class Bytes>
void from_hex(std::string_view text, Bytes& bytes) {
    if (text.size() != 2 * std::size(bytes)) refuse();
    for (auto& byte : bytes) {
        byte = static_cast<std::remove_reference_t<decltype(byte)>>(
            number<std::uint8_t>(text.substr(0, 2), 16));
        text.remove_prefix(2);
    }
}

// The number of splitters, and all that they are.
std::string splitters_text(Splitters const& splitters) {
    std::string text = std::to_string(splitters.count());
    for (Type const& type : splitters.types) text += ' ' + type.to_string();
    for (auto const& value : splitters.values) {
        for (std::uint64_t const word : {value.word, value.low, value.high,
                                         std::uint64_t{value.begin}, std::uint64_t{value.size}}) {
            text += ' ' + hex_text(word);
        }
    }
    return text + ' ' + hex(splitters.bytes);
}

// "transfer segment_rows ..."
std::string text_of(Plan plan) {
    std::string text = std::to_string(static_cast<std::uint32_t>(plan.transfer));
    for (std::uint32_t const* value : numbers_of(plan)) text += ' ' + std::to_string(*value);
    return text;
}

template <class Next>
Plan plan_in(Next const& next) {
    Plan plan;
    plan.transfer = static_cast<Transfer>(number<std::uint8_t>(next()));
    for (std::uint32_t* const value : numbers_of(plan)) *value = number(next());
    return plan;
}

// "number secret relays plan", and the plan for peers
std::string text_of(Terms const& terms) {
    std::string text = std::to_string(terms.number) + ' ' + hex(terms.secret);
    text += terms.relays ? " 1 " : " 0 ";
    text += text_of(terms.plan);
    if (terms.for_peers) text += ' ' + text_of(*terms.for_peers);
    return text;
}

Terms terms_in(std::string_view text) {
    auto const next = [&text] { return take_word(text, ' '); };
    Terms terms;
    terms.number = number<std::uint64_t>(next());
    from_hex(next(), terms.secret);
    terms.relays = number(next()) != 0;
    terms.plan = plan_in(next);
    if (!text.empty()) terms.for_peers = plan_in(next);
    return terms;
}

// "own gpu ... peers gpu ... destinations number gpu ... without member ... maps door home", each of the first four words
// the number that follow
std::string text_of(GpuCard const& card) {
    std::string text;
    for (auto const* gpus : {&card.own, &card.peers}) {
        text += std::to_string(gpus->size()) + ' ';
        for (std::string const& gpu : *gpus) text += gpu + ' ';
    }
    text += std::to_string(card.destinations.size()) + ' ';
    for (auto const& [destination, gpu] : card.destinations) {
        text += std::to_string(destination) + ' ' + gpu + ' ';
    }
    text += std::to_string(card.without.size()) + ' ';
    for (std::uint32_t const member : card.without) text += std::to_string(member) + ' ';
    text += card.maps ? "1 " : "0 ";
    return text + card.door + ' ' + one_line(card.home);
}

GpuCard gpu_card_in(std::string_view text) {
    auto const next = [&text] { return take_word(text, ' '); };
    GpuCard card;
    for (auto* const gpus : {&card.own, &card.peers}) {
        for (auto left = number(next()); left != 0 && !text.empty(); --left) {
            gpus->emplace_back(next());
        }
    }
    for (auto left = number(next()); left != 0 && !text.empty(); --left) {
        std::uint32_t const destination = number(next());
        card.destinations[destination] = next();
    }
    for (auto left = number(next()); left != 0 && !text.empty(); --left) {
        card.without.insert(number(next()));
    }
    card.maps = number(next()) != 0;
    card.door = next();
    card.home = text;
    return card;
}

// "insists why_not"
std::string text_of(DirectCard const& card) {
    return std::string(card.insists ? "1 " : "0 ") + one_line(card.why_not);
}

DirectCard direct_card_in(std::string_view text) {
    DirectCard card;
    card.insists = number(take_word(text, ' ')) != 0;
    card.why_not = text;
    return card;
}

constexpr std::string_view kMapped = "mapped";

// "bytes handle", or "bytes mapped", and behind that "n" with the number, "u" with the bytes that are used, "s" and "d" with the number of each
// endpoint there
std::string text_of(SharedGpuPool const& pool) {
    std::string text = std::to_string(pool.bytes) + ' ' +
                       (pool.mapped ? std::string(kMapped) : hex(pool.handle.bytes));
    if (pool.number != 0) text += " n" + std::to_string(pool.number);
    if (pool.used != 0) text += " u" + std::to_string(pool.used);
    for (auto const s : pool.here.sources) text += " s" + std::to_string(s);
    for (auto const d : pool.here.destinations) text += " d" + std::to_string(d);
    return text;
}

SharedGpuPool pool_in(std::string_view text) {
    SharedGpuPool pool;
    pool.bytes = number<std::uint64_t>(take_word(text, ' '));
    auto const memory = take_word(text, ' ');
    pool.mapped = memory == kMapped;
    if (!pool.mapped) from_hex(memory, pool.handle.bytes);
    while (!text.empty()) {
        auto const word = take_word(text, ' ');
        if (word.empty()) refuse();
        std::string_view const value = word.substr(1);
        switch (word.front()) {
            case 'n': pool.number = number<std::uint64_t>(value); break;
            case 'u': pool.used = number<std::uint64_t>(value); break;
            case 's': pool.here.sources.push_back(number(value)); break;
            case 'd': pool.here.destinations.push_back(number(value)); break;
            default: refuse();
        }
    }
    return pool;
}

// "pool source destination offset"
std::string text_of(SharedGpuRing const& ring) {
    return std::to_string(ring.pool) + ' ' + std::to_string(ring.source) + ' ' +
           std::to_string(ring.destination) + ' ' + std::to_string(ring.offset);
}

SharedGpuRing ring_in(std::string_view text) {
    auto const next = [&text] { return take_word(text, ' '); };
    SharedGpuRing ring;
    for (std::uint32_t* const value : {&ring.pool, &ring.source, &ring.destination}) {
        *value = number(next());
    }
    ring.offset = number<std::uint64_t>(next());
    return ring;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> fields_of(ChannelSpec const& spec) {
    ChannelOptions const& options = spec.options;
    std::string keys;
    for (std::string const& key : spec.routing.keys) keys += std::to_string(key.size()) + ":" + key;
    std::string owners;
    for (std::uint32_t const owner : spec.routing.owners) owners += std::to_string(owner) + " ";
    std::string order;
    for (SortKey const& key : spec.routing.order) {
        order += std::to_string(key.column.size()) + ":" + key.column +
                 (key.descending ? " desc" : " asc") + (key.nulls_first ? " nulls first " : " ");
    }
    auto const flag = [](bool value) { return std::string(value ? "true" : "false"); };
    auto const number = [](auto value) { return std::to_string(value); };
    std::vector<std::pair<std::string, std::string>> fields = {
        {"sources", ids_text(spec.sources)},
        {"destinations", ids_text(spec.destinations)},
        {"schema", spec.schema ? spec.schema->to_string() : "none"},
        {"routing", number(static_cast<std::uint32_t>(spec.routing.kind))},
        {"routing's keys", keys},
        {"routing's hash", number(static_cast<std::uint32_t>(spec.routing.hash))},
        {"routing's owners", owners},
        {"routing's order", order},
        {"routing's splitters", splitters_text(spec.routing.splitters)},
        {"name", options.name},
        {"ordered", flag(options.ordered)},
        {"by_reference", flag(options.by_reference)},
        {"layout", number(static_cast<std::uint32_t>(options.layout))},
        {"segment_bytes", number(options.segment_bytes)},
        {"segment_rows", number(options.segment_rows)},
        {"expected_bytes", number(options.expected_bytes)},
        {"slots", number(options.slots)},
        {"credits", number(options.credits)},
        {"tile_rows", number(options.tile_rows)},
        {"chunk_rows", number(options.chunk_rows)},
        {"max_groups", number(options.max_groups)},
        {"text_bytes_per_row", number(options.text_bytes_per_row)},
        {"receive_limit", number(options.receive_limit)},
        {"stall_limit", number(options.stall_limit.count()) + " ms"},
        {"gone_limit", number(options.gone_limit.count()) + " ms"},
        {"sorters", number(options.sorters)},
        {"weight", number(options.weight)},
        {"relay_gpus", flag(options.relay_gpus)},
        {"relay_host", flag(options.relay_host)},
    };
    for (auto& [name, value] : fields) value = value_of(std::move(value));
    return fields;
}

std::string encode(Said const& said) {
    std::string text = std::string("version\t") + kTermsVersion + '\n';
    if (said.id != 0) text += "id\t" + std::to_string(said.id) + '\n';
    if (said.terms) text += "terms\t" + text_of(*said.terms) + '\n';
    for (std::string const& address : said.addresses) text += "address\t" + address + '\n';
    if (!said.gpus.home.empty()) text += "gpus\t" + text_of(said.gpus) + '\n';
    if (said.direct) text += "direct\t" + text_of(*said.direct) + '\n';
    for (auto const& pool : said.shared_gpus.pools) text += "pool\t" + text_of(pool) + '\n';
    for (auto const& ring : said.shared_gpus.rings) text += "ring\t" + text_of(ring) + '\n';
    if (said.taken) text += "taken\t\n";
    if (said.error) {
        text += "code\t" + std::to_string(static_cast<std::uint32_t>(said.error->code())) + '\n';
        text += "error\t" + one_line(said.error->what()) + '\n';
    }
    for (auto const& [name, value] : said.fields) {
        text.append("field\t").append(name).append("\t").append(value).append("\n");
    }
    return text;
}

Said decode(std::string_view text) {
    Said said;
    std::optional<ErrorCode> code;
    bool known = false;
    while (!text.empty()) {
        auto const end = text.find('\n');
        std::string_view line = text.substr(0, end);
        auto const tab = line.find('\t');
        if (end == std::string_view::npos || tab == std::string_view::npos) refuse();
        text.remove_prefix(end + 1);
        std::string_view const word = line.substr(0, tab);
        line.remove_prefix(tab + 1);
        if (word == "version") {
            known = line == kTermsVersion;
        } else if (word == "id") {
            said.id = number(line);
        } else if (word == "terms") {
            said.terms = terms_in(line);
        } else if (word == "address") {
            said.addresses.emplace_back(line);
        } else if (word == "gpus") {
            said.gpus = gpu_card_in(line);
        } else if (word == "direct") {
            said.direct = direct_card_in(line);
        } else if (word == "pool") {
            said.shared_gpus.pools.push_back(pool_in(line));
        } else if (word == "ring") {
            said.shared_gpus.rings.push_back(ring_in(line));
        } else if (word == "taken") {
            said.taken = true;
        } else if (word == "code") {
            std::uint32_t const value = number(line);
            if (value == 0 || value > static_cast<std::uint32_t>(ErrorCode::Internal)) refuse();
            code = static_cast<ErrorCode>(value);
        } else if (word == "error") {
            said.error = Error(code.value_or(ErrorCode::Internal), std::string(line));
        } else if (word == "field") {
            auto const split = line.find('\t');
            if (split == std::string_view::npos) refuse();
            said.fields.emplace_back(line.substr(0, split), line.substr(split + 1));
        }
    }
    if (!known) refuse();
    return said;
}

std::string encode_card(GpuCard const& card) {
    return text_of(card);
}

GpuCard decode_card(std::string_view text) {
    return gpu_card_in(text);
}

void check_agreement(std::vector<Said> const& all, std::vector<std::string> const& names,
                     std::string const& who) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i].error) continue;
        throw Error(all[i].error->code(), names[i] + ": " + all[i].error->what());
    }
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i].fields.size() != all[0].fields.size()) refuse();
        for (std::size_t f = 0; f < all[0].fields.size(); ++f) {
            if (all[i].fields[f] == all[0].fields[f]) continue;
            auto const& [name, value] = all[0].fields[f];
            std::string text = who;
            text.append(": processes make one channel together and ask for different ones: ")
                .append(name)
                .append(" is '" + value + "' for " + names[0])
                .append(" and '" + all[i].fields[f].second + "' for " + names[i]);
            throw Error(ErrorCode::InvalidArgument, text);
        }
    }
}

}  // namespace mgi
