/// \file
/// Arrow's arrays by hand.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>

namespace mgi::test {

/// An array of Arrow's, and its schema.
struct Part {
    Part(std::string format, std::int64_t rows, std::vector<void const*> own,
         std::vector<Part*> parts = {}, std::string called = "x")
        : text(std::move(format)), name(std::move(called)), buffers(std::move(own)) {
        for (Part* const part : parts) {
            schemas.push_back(&part->schema);
            arrays.push_back(&part->array);
        }
        schema.format = text.c_str();
        schema.name = name.c_str();
        schema.flags = ARROW_FLAG_NULLABLE;
        schema.n_children = std::int64_t(parts.size());
        schema.children = schemas.data();
        schema.release = [](ArrowSchema* released) { released->release = nullptr; };
        array.length = rows;
        array.null_count = -1;
        array.n_buffers = std::int64_t(buffers.size());
        array.buffers = buffers.data();
        array.n_children = std::int64_t(parts.size());
        array.children = arrays.data();
        array.release = [](ArrowArray* released) { released->release = nullptr; };
    }
    Part(Part const&) = delete;
    Part& operator=(Part const&) = delete;

    std::string text;
    std::string name;
    std::vector<void const*> buffers;
    std::vector<ArrowSchema*> schemas;
    std::vector<ArrowArray*> arrays;
    ArrowSchema schema{};
    ArrowArray array{};
};

/// A batch of that one column.
inline RecordBatch read(Part& column) {
    Part table("+s", column.array.length, {nullptr}, {&column});
    return import_batch(&table.array, &table.schema);
}

}  // namespace mgi::test
