// Tables in GPU memory as an operator makes them.
#pragma once

#include "operators/gpu/move_kernels.hpp"
#include "operators/gpu/tables.hpp"

namespace mgi::operators::on_gpu {

[[noreturn]] inline void refuse_changed_rows(std::string const& what, std::string const& whose) {
    refuse(what, "keys or texts of " + whose +
                     " changed while its rows were exchanged; let nobody write into the columns "
                     "until the call has returned");
}

// Rows that an operator goes on with, as kernels read them.
struct Arrived {
    std::vector<ColumnView> columns;
    u64 rows = 0;
    std::vector<Memory> memory;
};

// Where the columns of a table lie that kernels fill: in its memory, or first elsewhere. Bools and validity are drafts of
// bytes, since groups write rows that share a word; texts are spans, and characters in no order.
class OutputLayout {
public:
    // `nulls` says which columns can have any, `characters` how many a column of texts will have that are brought; without it
    // they stay where they are.
    OutputLayout(Schema const& schema, std::vector<bool> const& nulls, u64 rows,
                 std::vector<u64> const& characters = {})
        : rows_(rows) {
        for (std::size_t c = 0; c < schema.size(); ++c) {
            Column column;
            column.type = schema[c].type;
            if (column.is_text()) {
                column.values = next(text_bytes_, rows * sizeof(device::TextSpan));
                if (!characters.empty()) column.characters = next(text_bytes_, characters[c]);
            } else if (column.is_bits()) {
                column.values = next(bytes_, bit_bytes());
                column.draft = next(draft_bytes_, rows + kAhead);
            } else {
                column.values = next(bytes_, rows * column.type.row_width());
            }
            if (nulls[c]) {
                column.valid = next(bytes_, bit_bytes());
                column.valid_draft = next(draft_bytes_, rows + kAhead);
            }
            columns_.push_back(column);
        }
    }

    [[nodiscard]] u64 rows() const { return rows_; }
    // Of the table, of drafts, and of texts.
    [[nodiscard]] u64 bytes() const { return bytes_; }
    [[nodiscard]] u64 draft_bytes() const { return draft_bytes_; }
    [[nodiscard]] u64 text_bytes() const { return text_bytes_; }

    // As kernels write them.
    [[nodiscard]] std::vector<OutputColumn> columns(char* memory, char* draft, char* texts) const {
        std::vector<OutputColumn> all;
        for (Column const& column : columns_) {
            OutputColumn to;
            to.bits = column.is_bits();
            to.text = column.is_text();
            to.wide = is_wide(column.type);
            to.width = to.bits ? 1 : column.type.row_width();
            to.values = (to.text ? texts : memory) + column.values;
            if (to.bits) to.values = draft + column.draft;
            if (column.characters != kNone) to.characters = texts + column.characters;
            if (column.valid != kNone) to.valid = reinterpret_cast<u8*>(draft + column.valid_draft);
            all.push_back(to);
        }
        return all;
    }
    // As others read them once they are packed; texts are spans.
    [[nodiscard]] std::vector<ColumnView> views(char* memory, char* texts) const {
        std::vector<ColumnView> all;
        for (Column const& column : columns_) {
            ColumnView view;
            view.values = memory + column.values;
            if (column.is_text()) {
                view.values = texts + column.values;
                view.encoding = device::InputEncoding::Spans;
                if (column.characters != kNone) view.bytes = texts + column.characters;
            }
            if (column.valid != kNone) {
                view.validity = reinterpret_cast<u8 const*>(memory + column.valid);
            }
            all.push_back(view);
        }
        return all;
    }
    // Calls `pack(bytes, bits)` for each column of bytes.
    template <class Pack>
    void each_packed(char* memory, char* draft, Pack const& pack) const {
        for (Column const& column : columns_) {
            if (column.is_bits()) pack(draft + column.draft, memory + column.values);
            if (column.valid != kNone) pack(draft + column.valid_draft, memory + column.valid);
        }
    }

private:
    static constexpr u64 kNone = ~u64{0};
    static constexpr u64 kAhead = 32;  // that packing may read behind the last row
    struct Column {
        Type type;
        u64 values = 0;  // in the table's memory, of texts in theirs
        u64 draft = kNone;
        u64 characters = kNone;
        u64 valid = kNone;
        u64 valid_draft = kNone;

        [[nodiscard]] bool is_bits() const { return type.id == TypeId::Bool; }
        [[nodiscard]] bool is_text() const { return type.is_variable(); }
    };
    static u64 next(u64& all, u64 bytes) {
        u64 const at = all;
        all += (bytes + 255) / 256 * 256;
        return at;
    }
    [[nodiscard]] u64 bit_bytes() const { return (rows_ + 31) / 32 * 4; }

    u64 rows_;
    u64 bytes_ = 0;
    u64 draft_bytes_ = 0;
    u64 text_bytes_ = 0;
    std::vector<Column> columns_;
};

// Lays texts out by offsets, in memory that is given out with `owners`.
inline GpuColumn pack_texts(Place& place, ColumnView const& texts, u64 rows,
                            std::string const& what, std::vector<Memory>& owners) {
    PackArgs args;
    args.texts = texts;
    args.rows = rows;
    Memory const tiles =
        place.allocate((args.tile_count() + 1) * 8, "where the characters of " + what + " lie");
    args.tiles = static_cast<u64*>(tiles.get());
    place.run(CountTexts::scratch_bytes(), CountTexts{}, args);
    place.run(PlaceTiles::scratch_bytes(place.threads()), PlaceTiles{}, args);
    u64 const bytes = place.download(args.tiles + args.tile_count(), 1)[0];
    if (bytes >= kTooLong) {
        refuse(what, "a text is longer than " + std::to_string(kLongestText) + " bytes");
    }
    bool const narrow = bytes <= kLongestText;
    Memory const offsets = place.allocate((rows + 1) * (narrow ? 4 : 8), what);
    Memory const characters = place.allocate(bytes, "the characters of " + what);
    owners.insert(owners.end(), {offsets, characters});
    char* const to = static_cast<char*>(characters.get());
    auto const write = [&](auto offset) {
        using Offset = decltype(offset);
        using Write = WriteTexts<Offset>;
        place.run(Write::scratch_bytes(place.threads()), Write{}, args,
                  static_cast<Offset*>(offsets.get()), to);
    };
    if (narrow) {
        write(std::int32_t{});
    } else {
        write(i64{});
    }
    GpuColumn column;
    column.values = offsets.get();
    column.encoding = narrow ? Encoding::Offsets32 : Encoding::Offsets64;
    column.bytes = reinterpret_cast<std::byte const*>(to);
    return column;
}

// A table that kernels of a place fill, or, with `windows`, also those of other processes.
class OutputTable {
public:
    OutputTable(Place& place, Schema const& schema, std::vector<bool> const& nulls, u64 rows,
                std::string const& what, GpuWindows* windows = nullptr,
                std::vector<u64> const& characters = {})
        : place_(&place),
          schema_(schema),
          what_(what),
          layout_(schema, nulls, rows, characters),
          in_window_(windows != nullptr) {
        auto const take = [&](u64 bytes, std::string const& of) {
            if (windows == nullptr) return place.allocate(bytes, of);
            return place.count(bytes, of, [&] { return window(place, *windows, bytes); });
        };
        memory_ = take(layout_.bytes(), what);
        if (layout_.draft_bytes() != 0) {
            draft_ = take(layout_.draft_bytes(), "bits of " + what);
        }
        if (layout_.text_bytes() != 0) {
            texts_ = take(layout_.text_bytes(), "texts of " + what);
        }
    }

    // In the host's memory, and in the place's.
    [[nodiscard]] std::vector<OutputColumn> columns() const {
        return layout_.columns(at(memory_), at(draft_), at(texts_));
    }
    [[nodiscard]] OutputColumn const* uploaded() {
        if (uploaded_ == nullptr) uploaded_ = place_->upload_one(keep_, columns());
        return uploaded_;
    }
    // What kernels write into.
    [[nodiscard]] std::vector<void*> memories() const {
        std::vector<void*> all{memory_.get()};
        if (draft_ != nullptr) all.push_back(draft_.get());
        if (texts_ != nullptr) all.push_back(texts_.get());
        return all;
    }

    // The rows, once all were written, for kernels of this place.
    Arrived arrived() {
        pack();
        return {layout_.views(at(memory_), at(texts_)), layout_.rows(), {memory_, texts_}};
    }

    // The table, likewise, in memory of the caller's allocator where there is one, wherever the rows were written.
    GpuTable finish() {
        GpuTable finished = table();
        place_->wait();
        return finished;
    }

    // The same for what is put into the place behind it.
    GpuTable table() {
        pack();
        if (in_window_ && place_->has_callers_memory()) {
            Memory copy = place_->allocate(layout_.bytes(), "a copy of the rows that arrived");
            place_->copy(copy.get(), memory_.get(), layout_.bytes());
            place_->wait();
            memory_ = std::move(copy);
        }
        GpuTable table;
        table.schema = schema_;
        table.rows = i64(layout_.rows());
        table.gpu = place_->gpu();
        std::vector<Memory> owners{memory_};
        auto const views = layout_.views(at(memory_), at(texts_));
        for (std::size_t c = 0; c < views.size(); ++c) {
            GpuColumn column;
            column.values = views[c].values;
            if (schema_[c].type.is_variable()) {
                column = pack_texts(*place_, views[c], layout_.rows(), what_, owners);
            }
            column.validity = views[c].validity;
            table.columns.push_back(column);
        }
        if (in_window_) place_->wait();
        texts_.reset();
        table.owner = owners.size() == 1
                          ? memory_
                          : Memory(memory_.get(), [owners = std::move(owners)](void*) {});
        return table;
    }

private:
    static Memory window(Place& place, GpuWindows& windows, u64 bytes) {
        try {
            return windows.make(place.gpu(), bytes);
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
        }
        place.trim();  // what is kept for others may be what is missing
        return windows.make(place.gpu(), bytes);
    }

    void pack() {
        layout_.each_packed(at(memory_), at(draft_), [&](char const* bytes, char* bits) {
            if (layout_.rows() == 0) return;
            place_->run(0, PackBits{}, reinterpret_cast<u8 const*>(bytes), layout_.rows(),
                        reinterpret_cast<u32*>(bits));
        });
        // Others may write into a window that is given back.
        if (in_window_) place_->wait();
        draft_.reset();
    }

    static char* at(Memory const& memory) { return static_cast<char*>(memory.get()); }

    Place* place_;
    Schema schema_;
    std::string what_;
    OutputLayout layout_;
    bool in_window_;
    Memory memory_;
    Memory draft_;  // until it is packed
    Memory texts_;
    std::vector<Memory> keep_;
    OutputColumn const* uploaded_ = nullptr;
};

}  // namespace mgi::operators::on_gpu
