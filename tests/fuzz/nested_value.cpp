#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "fuzz/targets.hpp"

namespace mgi::fuzz {
namespace nested {
namespace {

template <class Released>
void just_release(Released* released) {
    released->release = nullptr;
}

/// A field of any type, with an array of it whose buffers are as long as they must be and hold anything.
class Foreign {
public:
    Foreign(Input& input, int depth) : depth_(depth) {
        schema.name = "x";
        schema.flags = input.below(4) != 0 ? ARROW_FLAG_NULLABLE : 0;
        schema.release = &just_release<ArrowSchema>;
        choose(input);
        schema.format = format_.c_str();
        for (auto const& child : children_) child_schemas_.push_back(&child->schema);
        schema.n_children = std::int64_t(children_.size());
        schema.children = child_schemas_.data();
        if (dictionary_ != nullptr) schema.dictionary = &dictionary_->schema;
    }

    /// May be called once.
    void make_array(Input& input, std::int64_t length) {
        array.length = length;
        array.offset = input.below(3);
        rows_ = length + array.offset;
        array.null_count = -1;
        if (has_validity_) {
            buffers_.push_back(input.below(3) == 0 ? nullptr : bytes(input, (rows_ + 7) / 8));
        }
        fill(input);
        for (auto const& child : children_) child_arrays_.push_back(&child->array);
        array.n_buffers = std::int64_t(buffers_.size());
        array.buffers = buffers_.data();
        array.n_children = std::int64_t(children_.size());
        array.children = child_arrays_.data();
        if (dictionary_ != nullptr) array.dictionary = &dictionary_->array;
        array.release = &just_release<ArrowArray>;
    }

    ArrowSchema schema{};
    ArrowArray array{};

private:
    enum class Way {
        Fixed,
        Bits,
        Text,
        Views,
        List,
        ListView,
        FixedList,
        Struct,
        Union,
        Dictionary,
        Runs,
        Null
    };

    void add_child(Input& input) {
        children_.push_back(std::make_unique<Foreign>(input, depth_ + 1));
    }

    void choose(Input& input) {
        struct Flat {
            char const* format;
            Way way;
            int width;
        };
        static constexpr Flat flat[] = {{"c", Way::Fixed, 1},
                                        {"l", Way::Fixed, 8},
                                        {"e", Way::Fixed, 2},
                                        {"tsu:", Way::Fixed, 8},
                                        {"d:50,2,256", Way::Fixed, 32},
                                        {"w:3", Way::Fixed, 3},
                                        {"b", Way::Bits, 0},
                                        {"u", Way::Text, 4},
                                        {"Z", Way::Text, 8},
                                        {"vu", Way::Views, 16},
                                        {"n", Way::Null, 0}};
        std::uint32_t const which = input.below(depth_ == 0 ? 10 : depth_ < 4 ? 20 : 1);
        if (depth_ != 0 && (which >= 10 || depth_ >= 4)) {
            Flat const& one = flat[input.below(std::size(flat))];
            format_ = one.format;
            way_ = one.way;
            width_ = one.width;
            has_validity_ = way_ != Way::Null;
            return;
        }
        static constexpr char const* lists[] = {"+l", "+L", "+vl", "+vL"};
        switch (which) {
            case 0:
            case 1:
            case 2:
            case 3:
                format_ = lists[which];
                way_ = which < 2 ? Way::List : Way::ListView;
                width_ = which % 2 == 0 ? 4 : 8;
                return add_child(input);
            case 4:
                width_ = int(input.below(4));
                format_ = "+w:" + std::to_string(width_);
                way_ = Way::FixedList;
                return add_child(input);
            case 5:
            case 6: return choose_union(input, which == 5);
            case 7:
                if (depth_ != 0) {
                    format_ = input.below(2) == 0 ? "c" : "I";
                    width_ = format_ == "c" ? 1 : 4;
                    way_ = Way::Dictionary;
                    dictionary_ = std::make_unique<Foreign>(input, depth_ + 1);
                    return;
                }
                [[fallthrough]];
            case 8:
                if (depth_ != 0) {
                    format_ = "+r";
                    way_ = Way::Runs;
                    has_validity_ = false;
                    children_.push_back(std::make_unique<Foreign>());
                    return add_child(input);
                }
                [[fallthrough]];
            default:
                format_ = "+s";
                way_ = Way::Struct;
                for (std::uint32_t left = input.below(4); left != 0; --left) add_child(input);
        }
    }

    void choose_union(Input& input, bool dense) {
        format_ = dense ? "+ud:" : "+us:";
        way_ = Way::Union;
        width_ = dense ? 4 : 0;
        has_validity_ = false;
        for (std::uint32_t i = 0; i <= input.below(2); ++i) {
            format_ += (i == 0 ? "" : ",") + std::to_string(i);
            add_child(input);
        }
    }

    void const* bytes(Input& input, std::int64_t count) {
        auto& made = memory_.emplace_back(std::size_t(std::max<std::int64_t>(count, 0)));
        for (char& byte : made) byte = char(input.take<std::uint8_t>());
        made.reserve(made.size() + 1);  // an address, also of nothing
        return made.data();
    }

    /// Mostly as they must be: each behind the one before, below `most`.
    void const* integers(Input& input, std::int64_t count, int width, std::int64_t most,
                         bool rising) {
        auto& made = memory_.emplace_back(std::size_t(count * width) + 1);
        std::int64_t at = 0;
        bool const sound = input.below(8) != 0;
        for (std::int64_t i = 0; i < count; ++i) {
            if (rising) {
                at = std::min(most, at + std::int64_t(input.below(3)));
            } else {
                at = most <= 0 ? 0 : std::int64_t(input.below(200)) % most;
            }
            std::int64_t const value = sound || input.below(8) != 0 ? at : input.number();
            std::memcpy(made.data() + i * width, &value, std::size_t(width));
        }
        return made.data();
    }

    void fill(Input& input) {
        std::int64_t const inner = std::int64_t(input.below(20));
        switch (way_) {
            case Way::Null: break;
            case Way::Fixed: buffers_.push_back(bytes(input, rows_ * width_)); break;
            case Way::Bits: buffers_.push_back(bytes(input, (rows_ + 7) / 8)); break;
            case Way::Text: {
                // Nobody can check how many characters there are.
                std::int64_t const most = 2 * (rows_ + 1);
                auto& made = memory_.emplace_back(std::size_t((rows_ + 1) * width_));
                std::int64_t at = 0;
                for (std::int64_t i = 0; i <= rows_; ++i) {
                    std::memcpy(made.data() + i * width_, &at, std::size_t(width_));
                    at += input.below(3);
                }
                buffers_.push_back(made.data());
                buffers_.push_back(bytes(input, most));
                break;
            }
            case Way::Views: fill_views(input); break;
            case Way::List:
                buffers_.push_back(integers(input, rows_ + 1, width_, inner, true));
                children_[0]->make_array(input, inner);
                break;
            case Way::ListView:
                buffers_.push_back(integers(input, rows_, width_, inner, false));
                buffers_.push_back(integers(input, rows_, width_, 3, false));
                children_[0]->make_array(input, inner);
                break;
            case Way::FixedList:
                children_[0]->make_array(
                    input, std::max<std::int64_t>(0, rows_ * width_ - (input.one_in(16) ? 1 : 0)));
                break;
            case Way::Struct:
                for (auto const& child : children_) child->make_array(input, rows_);
                break;
            case Way::Union:
                buffers_.push_back(
                    integers(input, rows_, 1, std::int64_t(children_.size()), false));
                if (width_ != 0) buffers_.push_back(integers(input, rows_, 4, inner, false));
                for (auto const& child : children_) {
                    child->make_array(input, width_ != 0 ? inner : rows_);
                }
                break;
            case Way::Dictionary:
                dictionary_->make_array(input, inner);
                buffers_.push_back(integers(input, rows_, width_, inner, false));
                break;
            case Way::Runs: fill_runs(input); break;
        }
    }

    void fill_views(Input& input) {
        auto& made = memory_.emplace_back(std::size_t(16 * rows_) + 1);
        for (std::int64_t i = 0; i < rows_; ++i) {
            std::uint32_t const length = input.below(14);
            std::memcpy(made.data() + 16 * i, &length, 4);
            if (length > 12 && input.one_in(8)) made[std::size_t(16 * i + 8)] = 1;  // no buffer
        }
        buffers_.push_back(made.data());
        buffers_.push_back(bytes(input, 13));
        static std::int64_t const sizes[] = {13};
        buffers_.push_back(sizes);
    }

    void fill_runs(Input& input) {
        Foreign& ends = *children_[0];
        std::int64_t const runs = rows_ + (input.one_in(8) ? -1 : 0);
        ends.array.length = std::max<std::int64_t>(runs, 0);
        ends.buffers_ = {nullptr, ends.integers(input, ends.array.length, 4, rows_, true)};
        // The last one ends behind all rows, mostly.
        if (ends.array.length > 0 && !input.one_in(8)) {
            auto const end = std::int32_t(rows_);
            std::memcpy(ends.memory_.back().data() + 4 * (ends.array.length - 1), &end, 4);
        }
        ends.array.n_buffers = 2;
        ends.array.buffers = ends.buffers_.data();
        ends.array.release = &just_release<ArrowArray>;
        children_[1]->make_array(input, ends.array.length);
    }

public:
    /// The ends of runs.
    Foreign() : depth_(0), format_("i"), way_(Way::Fixed), width_(4) {
        schema.format = format_.c_str();
        schema.name = "run_ends";
        schema.release = &just_release<ArrowSchema>;
    }

private:
    int depth_;
    std::string format_;
    Way way_ = Way::Null;
    int width_ = 0;
    bool has_validity_ = true;
    std::int64_t rows_ = 0;
    std::vector<std::unique_ptr<Foreign>> children_;
    std::unique_ptr<Foreign> dictionary_;
    std::vector<ArrowSchema*> child_schemas_;
    std::vector<ArrowArray*> child_arrays_;
    std::vector<void const*> buffers_;
    std::deque<std::vector<char>> memory_;
};

/// A table of one column.
struct Lone {
    explicit Lone(Foreign& from) : children{&from.schema}, arrays{&from.array} {
        schema.format = "+s";
        schema.n_children = 1;
        schema.children = children;
        schema.release = &just_release<ArrowSchema>;
        array.length = from.array.length;
        array.n_buffers = 1;
        array.buffers = none;
        array.n_children = 1;
        array.children = arrays;
        array.release = &just_release<ArrowArray>;
    }

    ArrowSchema* children[1];
    ArrowArray* arrays[1];
    void const* none[1] = {nullptr};
    ArrowSchema schema{};
    ArrowArray array{};
};

std::vector<std::string> values_of(RecordBatch const& batch) {
    std::vector<std::string> values;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        values.push_back(batch.is_valid(0, row) ? "+" + std::string(batch.string_at(0, row)) : "");
    }
    return values;
}

RecordBatch out_and_in(RecordBatch const& batch) {
    ArrowSchema schema{};
    ArrowArray array{};
    export_batch(batch, &array);
    export_schema(batch, &schema);
    return import_batch(&array, &schema);
}

/// Mostly few; now and then several blocks of 64.
std::int64_t rows_of(Input& input) {
    std::uint32_t const few = input.below(16);
    return few < 12 ? few : input.below(201);
}

/// Values that were read come out as they went in.
void check_read(Foreign& from, Input& input) {
    from.make_array(input, rows_of(input));
    Lone lone(from);
    RecordBatch const batch = import_batch(&lone.array, &lone.schema);
    require(values_of(out_and_in(batch)) == values_of(batch), "a nested value comes out as it was");
}

/// Rows of text: pieces of what is left, or each all of it but one, and some null.
struct Rows {
    Rows(Input& input, bool nullable) {
        std::int64_t const rows = rows_of(input);
        bool const copies = input.below(2) == 0;
        chosen = input.below(256);
        if (nullable && input.below(2) == 0) {
            for (std::int64_t i = 0; i <= rows / 8; ++i) {
                validity.push_back(input.take<std::uint8_t>());
            }
        }
        std::string_view const text = input.all();
        for (std::int64_t i = 0; i < rows; ++i) {
            std::size_t const begin = copies ? 0 : text.size() * std::size_t(i) / std::size_t(rows);
            std::size_t const end =
                copies ? text.size() : text.size() * std::size_t(i + 1) / std::size_t(rows);
            bool const cut = copies && i == chosen;
            bytes += text.substr(begin, cut ? (end - begin) / 2 : end - begin);
            ends.push_back(std::int64_t(bytes.size()));
        }
    }

    std::string bytes;
    std::vector<std::int64_t> ends = {0};
    std::vector<std::uint8_t> validity;
    std::int64_t chosen = 0;
};

/// Bytes that another process may send for such values.
void check_bytes(Foreign& from, Input& input) {
    ArrowSchema* const children[1] = {&from.schema};
    ArrowSchema schema{};
    schema.format = "+s";
    schema.n_children = 1;
    schema.children = const_cast<ArrowSchema**>(children);
    schema.release = &just_release<ArrowSchema>;
    RecordBatch batch;
    batch.schema = import_schema(&schema);
    if (!batch.schema[0].type.is_variable()) return;
    Rows const rows(input, batch.schema[0].nullable);
    batch.rows = std::int64_t(rows.ends.size()) - 1;
    Column& column = batch.columns.emplace_back();
    column.encoding = Encoding::Offsets64;
    column.values = rows.ends.data();
    column.bytes = reinterpret_cast<std::byte const*>(rows.bytes.data());
    if (!rows.validity.empty()) column.validity = rows.validity.data();
    RecordBatch const once = out_and_in(batch);
    std::vector<std::string> const values = values_of(once);
    require(values_of(out_and_in(once)) == values, "a value has one form");
    if (batch.rows == 0) return;
    column.offset = rows.chosen % batch.rows;
    batch.rows = 1;
    require(values_of(out_and_in(batch))[0] == values[std::size_t(column.offset)],
            "a value is among others what it is alone");
}

}  // namespace
}  // namespace nested

void nested_value(Input input) {
    bool const bytes = input.below(2) == 0;
    nested::Foreign from(input, 0);
    try {
        bytes ? nested::check_bytes(from, input) : nested::check_read(from, input);
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument,
                "a nested value is refused as an argument", error.what());
    }
}

}  // namespace mgi::fuzz
