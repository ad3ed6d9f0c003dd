/// \file
/// What an exported struct of Arrow's keeps alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>

namespace mgi::arrow {

/// Private data of an exported schema or column of one.
struct SchemaHolder {
    std::string format;
    std::string name;
    std::string metadata;
    std::int64_t flags = 0;
    std::vector<ArrowSchema> child_structs;
    std::vector<ArrowSchema*> children;
    ArrowSchema dictionary{};

    SchemaHolder() = default;
    SchemaHolder(SchemaHolder const&) = delete;
    SchemaHolder& operator=(SchemaHolder const&) = delete;
    ~SchemaHolder() {
        for (ArrowSchema& child : child_structs) {
            if (child.release != nullptr) child.release(&child);
        }
        if (dictionary.release != nullptr) dictionary.release(&dictionary);
    }
};

/// Private data of an exported batch or column. A consumer may move a column out and release it
/// later than the batch, so each keeps the memory alive by itself.
struct ArrayHolder {
    std::shared_ptr<void const> owner;
    std::vector<void const*> buffers;
    std::vector<std::int64_t> sizes;
    std::vector<ArrowArray> child_structs;
    std::vector<ArrowArray*> children;
    ArrowArray dictionary{};

    ArrayHolder() = default;
    ArrayHolder(ArrayHolder const&) = delete;
    ArrayHolder& operator=(ArrayHolder const&) = delete;
    ~ArrayHolder() {
        for (ArrowArray& child : child_structs) {
            if (child.release != nullptr) child.release(&child);
        }
        if (dictionary.release != nullptr) dictionary.release(&dictionary);
    }
};

template <class Struct, class Holder>
void release(Struct* released) {
    delete static_cast<Holder*>(released->private_data);
    released->private_data = nullptr;
    released->release = nullptr;
}

/// Lays out room for children, all of them released until they are filled in.
template <class Holder>
void make_children(Holder& holder, std::size_t count) {
    holder.child_structs.resize(count);
    for (auto& child : holder.child_structs) holder.children.push_back(&child);
}

inline ArrowSchema seal(std::unique_ptr<SchemaHolder> holder) {
    ArrowSchema schema{};
    schema.format = holder->format.c_str();
    schema.name = holder->name.c_str();
    if (!holder->metadata.empty()) schema.metadata = holder->metadata.c_str();
    schema.flags = holder->flags;
    schema.n_children = std::int64_t(holder->children.size());
    schema.children = holder->children.data();
    if (holder->dictionary.release != nullptr) schema.dictionary = &holder->dictionary;
    schema.release = &release<ArrowSchema, SchemaHolder>;
    schema.private_data = holder.release();
    return schema;
}

inline ArrowArray seal(std::unique_ptr<ArrayHolder> holder) {
    ArrowArray array{};
    array.n_buffers = std::int64_t(holder->buffers.size());
    array.buffers = holder->buffers.data();
    array.n_children = std::int64_t(holder->children.size());
    array.children = holder->children.data();
    if (holder->dictionary.release != nullptr) array.dictionary = &holder->dictionary;
    array.release = &release<ArrowArray, ArrayHolder>;
    array.private_data = holder.release();
    return array;
}

}  // namespace mgi::arrow
