#include "topology/readers/source.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <mgi/error.hpp>

#include "core/text.hpp"
#include "topology/readers/utf8.hpp"

namespace mgi::topology {
namespace {

std::string too_long() {
    return "is longer than " + bytes_text(kMostFileBytes) + ", which no topology file is";
}

}  // namespace

Source::Source(std::string name, std::string text)
    : name_(std::move(name)), text_(plain_text(std::move(text))) {
    if (text_.size() > kMostFileBytes) fail(0, too_long());
    for (std::size_t at = 0; (at = text_.find('\n', at)) != std::string::npos; ++at) {
        line_ends_.push_back(at);
    }
    if (text_.starts_with("\xFF\xFE") || text_.starts_with("\xFE\xFF")) {
        fail(0, "is in UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8 makes it so)");
    }
    if (std::size_t const zero = text_.find('\0'); zero != std::string::npos) {
        fail(line_of(zero), "a zero byte: this is no text; expected a topology file in UTF-8");
    }
    if (std::size_t const other = first_non_utf8(text_); other != std::string_view::npos) {
        fail(line_of(other), "a byte that is no UTF-8; expected a topology file in UTF-8");
    }
    if (text_.find_first_not_of(" \t\r\n") == std::string::npos) {
        fail(0,
             "is empty; expected an NCCL or hwloc topology, or the output of nvidia-smi topo -m");
    }
}

Source Source::of_file(std::string const& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        throw Error(ErrorCode::InvalidArgument, path + ": is a directory; expected a file");
    }
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw Error(ErrorCode::NotFound,
                    path + ": cannot be opened: " +
                        std::error_code(errno, std::generic_category()).message());
    }
    std::string text;
    char part[1 << 16];
    while (file.read(part, sizeof(part)) || file.gcount() > 0) {
        text.append(part, std::size_t(file.gcount()));
        if (text.size() > kMostFileBytes) {
            throw Error(ErrorCode::InvalidArgument, path + ": " + too_long());
        }
    }
    if (file.bad()) throw Error(ErrorCode::InvalidArgument, path + ": cannot be read to its end");
    return {path, std::move(text)};
}

std::size_t Source::line_of(std::size_t offset) const {
    auto const at = std::lower_bound(line_ends_.begin(), line_ends_.end(), offset);
    return 1 + std::size_t(at - line_ends_.begin());
}

void Source::fail(std::size_t line, std::string const& what) const {
    std::string const where = line == 0 ? name_ : name_ + ":" + std::to_string(line);
    throw Error(ErrorCode::InvalidArgument, where + ": " + what);
}

std::string in_quotes(std::string_view text) {
    constexpr std::size_t kMost = 60;
    std::string shown = "\"";
    for (char const c : text.substr(0, kMost)) {
        auto const byte = static_cast<unsigned char>(c);
        shown += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
    return shown + (text.size() > kMost ? "...\"" : "\"");
}

}  // namespace mgi::topology
