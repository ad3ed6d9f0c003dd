// What the survey of all parts has found, of all processes.
#pragma once

#include <bit>
#include <numeric>

#include "operators/gpu/keys.hpp"
#include "operators/gpu/ranges.hpp"
#include "operators/gpu/survey.hpp"
#include "operators/gpu/tables.hpp"

namespace mgi::operators::on_gpu {

// Where rows are to go.
enum class Going : u8 { Nowhere, ToOwners, ToAll };

struct Wanted {
    std::vector<bool> magnitudes;  // by column; of integers and decimals
    std::vector<u32> keys;
    bool sketch = false;  // of the keys
    // How many rows go to each endpoint, and how many characters of each text column that moves.
    Going going = Going::Nowhere;
    std::vector<u32> moving;  // columns
    // Of rows that go to the owners of ranges of the keys. Null: to those of their hashes.
    Ranges const* ranges = nullptr;
};

struct Facts {
    Going going = Going::Nowhere;
    Ranges const* ranges = nullptr;                  // as was wanted
    std::vector<bool> nulls;                         // by column
    std::vector<u64> magnitudes;                     // by column; 0 where not wanted
    std::vector<u64> uppers;                         // by column, see SurveyCounts
    std::vector<double> keys_of_part;                // how many differ, about
    double keys = 0;                                 // of all parts
    std::vector<std::vector<u64>> rows_of_part_for;  // by part and endpoint
    std::vector<u32> texts;                          // those of which there are
    std::vector<std::vector<std::vector<u64>>> characters_of_part_for;  // by text, part, endpoint
    u64 longest_text = 0;                                               // of those that move
    u64 longest_row = 0;                                                // all of its texts

    // How many an endpoint gets of all parts.
    [[nodiscard]] u64 rows_for(std::size_t endpoint) const {
        u64 rows = 0;
        for (auto const& of_part : rows_of_part_for) rows += of_part[endpoint];
        return rows;
    }
    // The same of a text column's characters, by part; empty of another column.
    [[nodiscard]] std::vector<std::vector<u64>> const& characters_of(u32 column) const {
        static std::vector<std::vector<u64>> const none;
        auto const at = std::find(texts.begin(), texts.end(), column);
        return at == texts.end() ? none : characters_of_part_for[std::size_t(at - texts.begin())];
    }
    // Of those that move, for a channel of so many rows.
    [[nodiscard]] TextNeeds text_needs(u64 rows) const {
        u64 characters = 0;
        for (auto const& of_text : characters_of_part_for) {
            for (auto const& of_part : of_text) {
                // What goes to all is sent once.
                auto const end = going == Going::ToAll ? of_part.begin() + 1 : of_part.end();
                characters = std::accumulate(of_part.begin(), end, characters);
            }
        }
        return TextNeeds::of(characters, rows, longest_row);
    }
    // How many characters of each of some columns an endpoint gets.
    [[nodiscard]] std::vector<u64> characters_for(std::vector<u32> const& columns,
                                                  std::size_t endpoint) const {
        std::vector<u64> all(columns.size());
        for (std::size_t c = 0; c < columns.size(); ++c) {
            for (auto const& of_part : characters_of(columns[c])) all[c] += of_part[endpoint];
        }
        return all;
    }
};

namespace detail {

// A part's survey.
class PartSurvey {
public:
    PartSurvey(Operation const& operation, Input const& input, Wanted const& wanted,
               std::vector<SurveyColumn> const& looked_at, std::vector<u32> const& texts,
               std::size_t part)
        : place_(operation.place(part)),
          looked_at_(looked_at.size()),
          destinations_(wanted.going == Going::ToOwners ? operation.size() : 1) {
        bool const counts_rows = wanted.going == Going::ToOwners;
        std::vector<u32> const all = input.columns_or_all({});
        SurveyArgs args;
        args.rows = input.rows(part);
        args.owners = operation.owners(wanted.keys.size());
        args.owners.count = u32(destinations_);
        if (wanted.ranges != nullptr) args.owners.ranges = wanted.ranges->of_part[part];
        TextArgs text;
        std::tie(args.columns, args.looked_at, args.owners.layouts, args.owners.keys, text.texts,
                 counts_, registers_, rows_for_, texts_) =
            place_.upload(keep_, input.views(part, all, std::vector<bool>(all.size(), true)),
                          looked_at, input.layouts(all), wanted.keys, texts,
                          std::vector<SurveyCounts>(looked_at.size()),
                          std::vector<u32>(wanted.sketch ? Sketch::kRegisters : 0),
                          std::vector<u64>(counts_rows ? destinations_ : 0),
                          std::vector<u64>(2 + texts.size() * destinations_));
        args.looked_at_count = u32(looked_at.size());
        args.counts = counts_;
        if (wanted.sketch) args.registers = registers_;
        if (counts_rows) args.rows_for = rows_for_;
        place_.run(Survey::scratch_bytes(args), Survey{}, args);
        if (texts.empty() || args.rows == 0) return;
        text.columns = args.columns;
        text.rows = args.rows;
        text.owners = args.owners;
        text.text_count = u32(texts.size());
        text.longest = texts_;
        text.longest_row = texts_ + 1;
        text.characters_for = texts_ + 2;
        place_.run(CountCharacters::scratch_bytes(text), CountCharacters{}, text);
    }

    std::vector<SurveyCounts> counts() { return place_.download(counts_, looked_at_); }
    std::vector<u32> registers() { return place_.download(registers_, Sketch::kRegisters); }
    // By destination: of rows that go to all, there is one.
    [[nodiscard]] std::size_t destinations() const { return destinations_; }
    std::vector<u64> rows_for() { return place_.download(rows_for_, destinations_); }
    // The longest text, the most characters of a row, and how many go where, by text and destination.
    std::vector<u64> texts(std::size_t count) {
        return place_.download(texts_, 2 + count * destinations_);
    }

private:
    Place& place_;
    std::size_t looked_at_;
    std::size_t destinations_;
    std::vector<Memory> keep_;
    SurveyCounts* counts_ = nullptr;
    u32* registers_ = nullptr;
    u64* rows_for_ = nullptr;
    u64* texts_ = nullptr;
};

// What one process has found, for the others: of its parts, and of all of them together.
inline std::string say_facts(Operation const& operation, Facts const& facts,
                             std::vector<u32> const& registers) {
    MessageWriter words;
    for (std::size_t c = 0; c < facts.nulls.size(); ++c) {
        words.number(facts.nulls[c] ? 1 : 0).number(facts.magnitudes[c]).number(facts.uppers[c]);
    }
    words.number(facts.longest_text).number(facts.longest_row);
    words.number(operation.own().size());
    for (std::size_t const p : operation.own()) {
        words.number(p).number(std::bit_cast<u64>(facts.keys_of_part[p]));
        if (facts.rows_of_part_for.empty()) continue;
        for (u64 const rows : facts.rows_of_part_for[p]) words.number(rows);
        for (auto const& of_text : facts.characters_of_part_for) {
            for (u64 const characters : of_text[p]) words.number(characters);
        }
    }
    words.text({reinterpret_cast<char const*>(registers.data()), registers.size() * sizeof(u32)});
    return words.take();
}

// Joins in what a process says.
inline void hear_facts(std::string const& said, Facts& facts, std::vector<u32>& registers) {
    MessageReader from(said);
    for (std::size_t c = 0; c < facts.nulls.size(); ++c) {
        if (from.number(1) == 1) facts.nulls[c] = true;
        facts.magnitudes[c] = std::max(facts.magnitudes[c], from.number());
        facts.uppers[c] = std::max(facts.uppers[c], from.number());
    }
    facts.longest_text = std::max(facts.longest_text, from.number());
    facts.longest_row = std::max(facts.longest_row, from.number());
    for (u64 parts = from.number(facts.keys_of_part.size()); parts != 0; --parts) {
        u64 const p = from.number(facts.keys_of_part.size() - 1);
        facts.keys_of_part[p] = std::bit_cast<double>(from.number());
        if (facts.rows_of_part_for.empty()) continue;
        for (u64& rows : facts.rows_of_part_for[p]) rows = from.number();
        for (auto& of_text : facts.characters_of_part_for) {
            for (u64& characters : of_text[p]) characters = from.number();
        }
    }
    std::string_view const theirs = from.text();
    if (theirs.size() != registers.size() * sizeof(u32)) MessageReader::refuse();
    for (std::size_t r = 0; r < registers.size(); ++r) {
        u32 rank = 0;
        std::memcpy(&rank, &theirs[r * sizeof(u32)], sizeof(u32));
        registers[r] = std::max(registers[r], rank);
    }
}

}  // namespace detail

inline Facts find_facts(Operation& operation, Input const& input, Wanted const& wanted) {
    bool const moves = wanted.going != Going::Nowhere;
    if (moves && operation.size() > Survey::kMostDestinations) {
        refuse(operation.what(), "at most " + std::to_string(Survey::kMostDestinations) +
                                     " endpoints on GPUs, not " + std::to_string(operation.size()));
    }
    u32 const columns = u32(input.schema().size());
    Facts facts;
    facts.going = wanted.going;
    facts.ranges = wanted.ranges;
    facts.nulls.resize(columns);
    facts.magnitudes.resize(columns);
    facts.uppers.resize(columns);
    std::vector<SurveyColumn> looked_at;
    for (u32 c = 0; c < columns; ++c) {
        bool const magnitude = !wanted.magnitudes.empty() && wanted.magnitudes[c];
        if (!input.may_be_null(c) && !magnitude) continue;
        ValueKind kind = kind_of(input.schema()[c].type);
        if (kind.kind == KeyKind::Bytes) kind.kind = KeyKind::Signed;  // a decimal's lower word
        looked_at.push_back({c, kind, magnitude});
    }
    facts.keys_of_part.resize(operation.size());
    if (moves) {
        facts.rows_of_part_for.assign(operation.size(), std::vector<u64>(operation.size()));
        for (u32 const c : wanted.moving) {
            if (input.schema()[c].type.is_variable()) facts.texts.push_back(c);
        }
        facts.characters_of_part_for.assign(facts.texts.size(), facts.rows_of_part_for);
    }
    bool const looks = !looked_at.empty() || wanted.sketch || moves;
    if (!looks && operation.alone()) return facts;
    struct Found {
        std::vector<SurveyCounts> counts;
        std::vector<u32> registers;
        u64 longest_text = 0;
        u64 longest_row = 0;
    };
    std::vector<Found> found(operation.size());
    operation.each([&](std::size_t p) {
        detail::PartSurvey survey(operation, input, wanted, looked_at, facts.texts, p);
        found[p].counts = survey.counts();
        if (wanted.sketch) found[p].registers = survey.registers();
        if (wanted.going == Going::ToOwners) {
            facts.rows_of_part_for[p] = survey.rows_for();
        } else if (moves) {
            facts.rows_of_part_for[p].assign(operation.size(), input.rows(p));
        }
        if (facts.texts.empty()) return;
        auto const texts = survey.texts(facts.texts.size());
        found[p].longest_text = texts[0];
        found[p].longest_row = texts[1];
        for (std::size_t t = 0; t < facts.texts.size(); ++t) {
            for (std::size_t e = 0; e < operation.size(); ++e) {
                std::size_t const destination = e % survey.destinations();
                facts.characters_of_part_for[t][p][e] =
                    texts[2 + t * survey.destinations() + destination];
            }
        }
    });
    std::vector<u32> all(wanted.sketch ? Sketch::kRegisters : 0);
    for (std::size_t const p : operation.own()) {
        for (std::size_t l = 0; l < looked_at.size(); ++l) {
            u32 const c = looked_at[l].column;
            if (found[p].counts[l].nulls != 0) facts.nulls[c] = true;
            facts.magnitudes[c] = std::max(facts.magnitudes[c], found[p].counts[l].magnitude);
            facts.uppers[c] = std::max(facts.uppers[c], found[p].counts[l].upper);
        }
        facts.longest_text = std::max(facts.longest_text, found[p].longest_text);
        facts.longest_row = std::max(facts.longest_row, found[p].longest_row);
        if (!wanted.sketch) continue;
        facts.keys_of_part[p] = Sketch::estimate(found[p].registers);
        for (u32 r = 0; r < Sketch::kRegisters; ++r) {
            all[r] = std::max(all[r], found[p].registers[r]);
        }
    }
    operation.check();
    if (!operation.alone()) {
        for (std::string const& said : operation.gather(detail::say_facts(operation, facts, all))) {
            detail::hear_facts(said, facts, all);
        }
    }
    if (facts.longest_text > kLongestText) {
        refuse(input.what(), "a text is longer than " + std::to_string(kLongestText) + " bytes");
    }
    if (wanted.sketch) facts.keys = Sketch::estimate(all);
    operation.end_phase("count");
    return facts;
}

// Lays keys out in words: in one if they fit.
inline KeyCode code_of(std::vector<KeyPart> parts) {
    KeyCode code;
    code.count = u32(parts.size());
    u32 bits = 0;
    for (KeyPart const& part : parts) bits += part.bits + (part.nullable ? 1u : 0u);
    if (parts.size() == 1 && bits == 65 && !parts[0].value.is_long()) {
        parts[0].null_apart = true;
        bits = 64;
    }
    std::vector<u32> used;
    auto const place = [&](u32 wanted, u8& word, u8& shift) {
        std::size_t w = 0;
        while (w < used.size() && used[w] + wanted > 64) ++w;
        if (w == used.size()) used.push_back(0);
        word = u8(w);
        shift = u8(used[w]);
        used[w] += wanted;
    };
    auto const is_begin = [](KeyPart const& part) {
        return part.value.kind == KeyKind::Text && part.value.skip == ValueKind::kTextBegin;
    };
    for (KeyPart& part : parts) {
        if (!is_begin(part)) place(part.bits, part.word, part.shift);
    }
    for (KeyPart& part : parts) {
        if (part.nullable && !part.null_apart) place(1, part.null_word, part.null_shift);
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
        if (!is_begin(parts[p])) continue;
        code.text_words[code.texts++] = parts[p - 1].word;
        parts[p].word = u8(used.size());
        used.push_back(64);
    }
    // Long values are for keys of several words.
    bool const is_long = std::any_of(parts.begin(), parts.end(),
                                     [](KeyPart const& part) { return part.value.is_long(); });
    if (is_long && used.size() == 1) used.push_back(64);
    code.words = u32(used.size());
    std::copy(parts.begin(), parts.end(), code.parts);
    return code;
}

// A key column as it is, appended to others: one part, or, of values longer than a word, one for each of their pieces.
inline void add_key(std::string const& what, std::vector<KeyPart>& parts, u32 column,
                    Field const& field, bool nullable) {
    KeyPart part;
    part.column = column;
    part.value = kind_of(field.type);
    bool const is_bool = field.type.id == TypeId::Bool;
    part.bits = is_bool ? 1 : field.type.is_float() ? 64 : u8(8 * part.value.piece());
    part.nullable = nullable;
    do {
        if (parts.size() == kMostKeys) {
            refuse(what,
                   "the keys up to column '" + field.name +
                       "' are too many or too long; on GPUs they may be " +
                       std::to_string(kMostKeys) +
                       " columns, of which texts count twice, and decimals and binaries once for "
                       "every 8 bytes");
        }
        parts.push_back(part);
        part.value.skip += 8;
        if (part.value.kind != KeyKind::Bytes && part.value.kind != KeyKind::Text) return;
        part.bits = u8(8 * part.value.piece());
    } while (part.value.skip < part.value.width);
}

}  // namespace mgi::operators::on_gpu
