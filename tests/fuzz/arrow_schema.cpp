#include <deque>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "fuzz/targets.hpp"

namespace mgi::fuzz {
namespace {

/// A producer's schema: every struct counts as released once its callback ran.
class Foreign {
public:
    explicit Foreign(Input& input) {
        while (!input.empty() && columns_.size() < 64) {
            flags_.push_back(input.until(' ') == "1" ? ARROW_FLAG_NULLABLE : 0);
            names_.emplace_back(input.until(' '));
            formats_.emplace_back(input.until('\n'));
            ArrowSchema column{};
            column.format = formats_.back().c_str();
            column.name = names_.back().c_str();
            column.flags = flags_.back();
            column.release = [](ArrowSchema* released) { released->release = nullptr; };
            columns_.push_back(column);
        }
        for (ArrowSchema& column : columns_) children_.push_back(&column);
        schema.format = "+s";
        schema.n_children = std::int64_t(children_.size());
        schema.children = children_.data();
        schema.release = [](ArrowSchema* released) {
            ++*static_cast<int*>(released->private_data);
            released->release = nullptr;
        };
        schema.private_data = &releases;
    }

    ArrowSchema schema{};
    int releases = 0;

private:
    std::vector<std::int64_t> flags_;
    std::deque<std::string> names_;
    std::deque<std::string> formats_;
    std::deque<ArrowSchema> columns_;
    std::vector<ArrowSchema*> children_;
};

/// What every schema promises.
void check(Schema const& schema) {
    std::vector<std::uint32_t> const offsets = schema.row_offsets();
    require(offsets.size() == schema.size(), "a row struct has every column");
    for (std::size_t c = 0; c < schema.size(); ++c) {
        require(schema.index_of(schema[c].name) == c, "a column is found by its name");
        require(offsets[c] < schema.row_bytes(), "a column lies inside the row struct");
        require(c == 0 || offsets[c - 1] < offsets[c], "columns of a row struct lie in order");
    }
    ArrowSchema exported{};
    export_schema(schema, &exported);
    require(import_schema(&exported) == schema, "an exported schema is read as it was");
}

}  // namespace

void arrow_schema(Input input) {
    Foreign foreign(input);
    try {
        Schema const schema = import_schema(&foreign.schema);
        require(!schema.to_string().empty() || schema.empty(), "a schema can be printed");
        check(schema);
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "a schema is refused as an argument");
    }
    require(foreign.releases == 1 && foreign.schema.release == nullptr,
            "an imported schema is released once, also when it is refused");
}

}  // namespace mgi::fuzz
