#include "topology/readers/smi_matrix.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "topology/readers/numbers.hpp"

namespace mgi::topology {
namespace {

constexpr std::size_t kMostDevices = 1024;

struct Line {
    std::size_t number;
    std::vector<std::string> words;
    std::vector<std::string> fields;  ///< between tabs, where the line has any
};

/// nvidia-smi underlines its header on terminals: "\x1b[4m".
std::string without_escapes(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') {
            plain += text[i];
            continue;
        }
        while (i < text.size() && text[i] != 'm') ++i;
    }
    return plain;
}

std::vector<std::string> split(std::string_view text, char const* separators, bool keep_empty) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        std::size_t const end = std::min(text.find_first_of(separators), text.size());
        if (end > 0 || keep_empty) parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

std::string trimmed(std::string const& text) {
    std::size_t const start = text.find_first_not_of(" \r");
    if (start == std::string::npos) return {};
    return text.substr(start, text.find_last_not_of(" \r") - start + 1);
}

std::vector<Line> lines_of(Source const& source) {
    std::vector<Line> lines;
    std::string_view text = source.text();
    for (std::size_t number = 1; !text.empty(); ++number) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string const line = without_escapes(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        Line made{number, split(line, " \t\r", false), {}};
        if (line.find('\t') != std::string::npos) {
            for (std::string const& field : split(line, "\t", true)) {
                made.fields.push_back(trimmed(field));
            }
        }
        lines.push_back(std::move(made));
    }
    return lines;
}

bool is_gpu_name(std::string_view word) {
    return word.size() > 3 && word.starts_with("GPU") &&
           word.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

std::optional<SmiCell> cell_of(std::string_view word) {
    static constexpr std::pair<std::string_view, SmiRelation> known[] = {
        {"X", SmiRelation::Self},  {"PIX", SmiRelation::Pix},   {"PXB", SmiRelation::Pxb},
        {"PHB", SmiRelation::Phb}, {"NODE", SmiRelation::Node}, {"SYS", SmiRelation::Sys},
        {"SOC", SmiRelation::Sys},  // until driver 396
    };
    for (auto const& [name, relation] : known) {
        if (word == name) return SmiCell{relation, 0};
    }
    if (!word.starts_with("NV")) return std::nullopt;
    std::int64_t links = 0;
    if (!read_whole(word.substr(2), links) || links < 1 || links > 1000) return std::nullopt;
    return SmiCell{SmiRelation::NvLink, links};
}

class MatrixReader {
public:
    explicit MatrixReader(Source const& source) : source_(source), lines_(lines_of(source)) {}

    std::vector<SmiMatrix> read() {
        std::vector<SmiMatrix> found;
        for (std::size_t at = header_from(0); at < lines_.size() || found.empty();) {
            matrix_ = {};
            at = read_table(at);
            found.push_back(std::move(matrix_));
        }
        return found;
    }

private:
    /// Reads the table whose header is in that line, and its legend; returns the next header.
    std::size_t read_table(std::size_t header) {
        std::size_t at = read_header(header);
        matrix_.cells.resize(matrix_.devices.size() * matrix_.devices.size());
        for (std::size_t row = 0; row < matrix_.devices.size(); ++row, ++at) {
            while (at < lines_.size() && lines_[at].words.empty()) ++at;
            if (at == lines_.size()) {
                source_.fail(lines_.back().number,
                             "the table ends before the row of " + matrix_.devices[row].label);
            }
            read_row(lines_[at], row);
        }
        check_symmetry();
        std::size_t next = header_from(at);
        while (next < lines_.size() && is_of_peers(next)) next = header_from(next + 1);
        read_legend(at, next);
        return next;
    }

    /// Whether a line is of the table that `nvidia-smi topo -p2p` prints, or heads it.
    [[nodiscard]] bool is_of_peers(std::size_t at) const {
        auto const has_peers = [](Line const& line) {
            return std::any_of(line.words.begin(), line.words.end(), [](std::string const& word) {
                return word == "OK" || word == "NS" || word == "CNS" || word == "GNS" ||
                       word == "TNS" || word == "U";
            });
        };
        return has_peers(lines_[at]) || (at + 1 < lines_.size() && has_peers(lines_[at + 1]));
    }

    /// The first line from there on that starts with a GPU's name: what people paste before it (a prompt,
    /// the command) does not.
    [[nodiscard]] std::size_t header_from(std::size_t at) const {
        while (at < lines_.size() &&
               (lines_[at].words.empty() || !is_gpu_name(lines_[at].words.front()))) {
            ++at;
        }
        return at;
    }

    /// Returns the line behind the header.
    std::size_t read_header(std::size_t at) {
        if (at == lines_.size()) {
            source_.fail(1,
                         "no line starts with GPU0; expected the table of nvidia-smi topo -m, or "
                         "an XML topology");
        }
        Line const& header = lines_[at];
        matrix_.line = header.number;
        if (header.words.size() > 1 && cell_of(header.words[1])) {
            source_.fail(
                header.number,
                "a row without a header above it; expected a line with the devices' names");
        }
        for (std::string const& word : header.words) {
            if (word == "CPU" || word == "NUMA" || word == "GPU") break;  // "CPU Affinity"
            add_device(header, word);
        }
        return at + 1;
    }

    void add_device(Line const& header, std::string const& word) {
        if (matrix_.devices.size() == kMostDevices) {
            source_.fail(header.number,
                         "more than " + std::to_string(kMostDevices) + " devices in the header");
        }
        for (SmiDevice const& other : matrix_.devices) {
            if (other.label == word)
                source_.fail(header.number, in_quotes(word) + " is there twice");
        }
        bool const is_gpu = is_gpu_name(word);
        matrix_.devices.push_back({is_gpu ? "gpu" + word.substr(3) : word, word, is_gpu, {}, {}});
    }

    void read_row(Line const& line, std::size_t row) {
        SmiDevice& device = matrix_.devices[row];
        if (line.words.front() != device.label) {
            source_.fail(line.number, "a row of " + in_quotes(line.words.front()) +
                                          "; expected that of " + device.label);
        }
        std::size_t const devices = matrix_.devices.size();
        for (std::size_t column = 0; column < devices; ++column) {
            std::string const where = device.label + " to " + matrix_.devices[column].label;
            if (column + 1 >= line.words.size()) {
                source_.fail(line.number, "the row has no cell for " + where);
            }
            auto const cell = cell_of(line.words[column + 1]);
            if (!cell) {
                source_.fail(line.number,
                             where + " is " + in_quotes(line.words[column + 1]) +
                                 "; expected X, PIX, PXB, PHB, NODE, SYS or NV and a number");
            }
            if ((cell->relation == SmiRelation::Self) != (column == row)) {
                source_.fail(line.number, where + " is " + in_quotes(line.words[column + 1]) +
                                              "; expected X there and only there where a device "
                                              "meets itself");
            }
            matrix_.cells[row * devices + column] = *cell;
        }
        read_affinity(line, device);
    }

    /// Columns that may be empty are told apart by tabs; in a table that lost its tabs only the first
    /// one, CPU affinity, and the second, NUMA affinity, are certain.
    void read_affinity(Line const& line, SmiDevice& device) const {
        std::size_t const columns = matrix_.devices.size() + 1;
        auto const& parts = line.fields.size() >= columns ? line.fields : line.words;
        auto const part = [&](std::size_t i) {
            if (parts.size() <= columns + i || parts[columns + i] == "N/A") return std::string();
            return parts[columns + i];
        };
        device.cpu_affinity = part(0);
        device.numa_affinity = part(1);
    }

    void check_symmetry() const {
        for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                SmiCell const& a = matrix_.at(i, j);
                SmiCell const& b = matrix_.at(j, i);
                if (a.relation == b.relation && a.nvlinks == b.nvlinks) continue;
                source_.fail(0, matrix_.devices[i].label + " to " + matrix_.devices[j].label +
                                    " and back differ; expected the same both ways");
            }
        }
    }

    /// "  NIC0: mlx5_0" under "NIC Legend:".
    void read_legend(std::size_t at, std::size_t end) {
        std::map<std::string, std::string> names;
        for (; at < end; ++at) {
            auto const& words = lines_[at].words;
            if (words.size() == 2 && words[0].ends_with(':')) {
                names[words[0].substr(0, words[0].size() - 1)] = words[1];
            }
        }
        for (SmiDevice& device : matrix_.devices) {
            auto const name = names.find(device.label);
            if (!device.is_gpu && name != names.end()) device.name = name->second;
        }
    }

    Source const& source_;
    std::vector<Line> const lines_;
    SmiMatrix matrix_;
};

}  // namespace

std::vector<SmiMatrix> read_smi_matrices(Source const& source) {
    return MatrixReader(source).read();
}

}  // namespace mgi::topology
