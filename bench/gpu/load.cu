#include "load.hpp"

#include <charconv>

#include "check.hpp"

namespace mgi::bench {
namespace {

template <class T>
T number_in(std::string const& text, std::string const& word) {
    T value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && end == text.data() + text.size(), word + " has no number");
    return value;
}

void set(Load& load, std::string const& key, std::string const& value, std::string const& word) {
    if (key == "gpus") {
        load.gpus = number_in<u32>(value, word);
    } else if (key == "rows") {
        load.rows = number_in<u64>(value, word);
    } else if (key == "row_bytes") {
        u32 const bytes = number_in<u32>(value, word);
        require(bytes == 16 || bytes == 32 || bytes == 64, word + ": expected 16, 32 or 64");
        load.words = bytes / 8;
    } else if (key == "theta") {
        load.theta = number_in<double>(value, word);
        require(load.theta >= 0 && load.theta <= 10, word + ": expected 0 to 10");
    } else if (key == "by_reference") {
        load.by_reference = number_in<u32>(value, word) != 0;
    } else if (key == "segment_bytes") {
        load.segment_bytes = number_in<u32>(value, word);
    } else if (key == "slots") {
        load.slots = number_in<u32>(value, word);
    } else if (key == "chunk_rows") {
        load.chunk_rows = number_in<u32>(value, word);
    } else if (key == "layout") {
        require(value == "rows" || value == "columns", word + ": expected rows or columns");
        load.layout = value == "rows" ? Layout::Rows : Layout::Columns;
    } else if (key == "pattern") {
        for (auto const& [pattern, name] : kPatterns) {
            if (value != name) continue;
            load.pattern = pattern;
            return;
        }
        require(false, word + ": no such pattern");
    } else {
        require(false, "no such word: " + word);
    }
}

}  // namespace

std::vector<std::string> words_of(Load const& load) {
    return {"gpus=" + std::to_string(load.gpus),
            "rows=" + std::to_string(load.rows),
            "row_bytes=" + std::to_string(load.row_bytes()),
            "theta=" + std::to_string(load.theta),
            "by_reference=" + std::to_string(load.by_reference ? 1 : 0),
            "segment_bytes=" + std::to_string(load.segment_bytes),
            "slots=" + std::to_string(load.slots),
            "chunk_rows=" + std::to_string(load.chunk_rows),
            std::string("layout=") + name_of(load.layout),
            std::string("pattern=") + name_of(load.pattern)};
}

Load load_of(std::vector<std::string> const& words) {
    Load load;
    for (std::string const& word : words) {
        std::size_t const at = word.find('=');
        require(at != std::string::npos, "no such word: " + word);
        set(load, word.substr(0, at), word.substr(at + 1), word);
    }
    require(load.gpus >= 1 && load.gpus <= 64, "1 to 64 GPUs");
    require(load.rows >= 1 && load.rows < u64(1) << 32, "1 to 2^32 - 1 rows of a GPU");
    require(load.pattern != Pattern::OneToOne || load.gpus == 2, "one-to-one is between 2 GPUs");
    return load;
}

}  // namespace mgi::bench
