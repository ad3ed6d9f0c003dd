/// \file
/// A producer of Arrow arrays that keeps to the C data interface or breaks it in one of the ways that
/// an importer can see: a number out of range, a pointer that is missing. Buffers have exactly the size
/// that the numbers promise, so that a sanitizer sees every byte read too many.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>

#include "fuzz/input.hpp"

namespace mgi::fuzz {

/// A value's bytes; nothing for a null.
using Cell = std::optional<std::string>;

/// One column's type, as its schema says it.
struct ForeignColumn {
    char const* format = nullptr;
    std::uint32_t width = 0;  ///< bytes of a value; 0: bits, or characters
    std::string name;
    bool nullable = false;
    ArrowSchema schema{};
};

/// The schema of up to six columns. Must outlive what is imported from it only until it is released.
class ForeignSchema {
public:
    explicit ForeignSchema(Input& input);
    ForeignSchema(ForeignSchema const&) = delete;
    ForeignSchema& operator=(ForeignSchema const&) = delete;

    ArrowSchema schema{};
    std::deque<ForeignColumn> columns;
    int releases = 0;
    bool sound = true;  ///< keeps to the interface

private:
    std::vector<ArrowSchema*> children_;
};

/// A batch of such a schema.
class ForeignBatch {
public:
    ForeignBatch(Input& input, ForeignSchema const& schema);
    ForeignBatch(ForeignBatch const&) = delete;
    ForeignBatch& operator=(ForeignBatch const&) = delete;

    ArrowArray array{};
    std::int64_t rows = 0;
    std::vector<std::vector<Cell>> cells;  ///< by column and row
    int releases = 0;
    bool sound = true;  ///< keeps to the interface; nothing is said of a batch that does not

private:
    struct Made;
    void make_column(Input& input, ForeignColumn const& column, std::int64_t skip);
    void fill_values(Input& input, ForeignColumn const& column, Made& made, std::int64_t first);
    void fill_offsets(Input& input, Made& made, std::int64_t first, bool large);
    void fill_views(Input& input, Made& made, std::int64_t first);
    void spoil(Input& input, ArrowArray& column, std::int64_t skip);
    char* buffer(Input& input, std::size_t bytes);

    std::deque<std::unique_ptr<char[]>> memory_;
    std::deque<ArrowArray> columns_;
    std::deque<std::vector<void const*>> buffers_;
    std::vector<ArrowArray*> children_;
    void const* no_validity_[1] = {nullptr};
};

}  // namespace mgi::fuzz
