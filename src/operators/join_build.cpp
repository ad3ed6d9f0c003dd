#include "operators/join_build.hpp"

namespace mgi::operators {

namespace {

// How far ahead of its use a directory entry is fetched.
constexpr u32 kAhead = 24;

template <class T>
void place_values(ColumnView const& view, u16 const* index, u32 count, char* const* rows,
                  u32 offset) {
    T const* const from = values_of<T>(view);
    for (u32 i = 0; i < count; ++i) std::memcpy(rows[i] + offset, from + index[i], sizeof(T));
}

void place_bytes(ColumnView const& view, u16 const* index, u32 count, char* const* rows, u32 offset,
                 u32 width) {
    char const* const from = static_cast<char const*>(view.values) + view.offset * width;
    for (u32 i = 0; i < count; ++i) {
        std::memcpy(rows[i] + offset, from + u64{index[i]} * width, width);
    }
}

}  // namespace

struct JoinBuild::Block {
    EncodedKeys keys;
    std::vector<ColumnView> columns;
    u32 count = 0;
    u16 index[kVector];
    char* rows[kVector];
};

JoinBuild::JoinBuild(JoinPlan const& plan, u32 groups, Run& run)
    : plan_(plan),
      groups_(groups),
      run_(run),
      charge_(run.budget()),
      pieces_(groups),
      totals_(groups, 0),
      unmatchable_of_(groups, 0) {}

void JoinBuild::add(u32 group, RecordBatch batch) {
    Piece piece;
    piece.hashes.resize(std::size_t(batch.rows));
    auto const keys = std::make_unique<EncodedKeys>();
    std::vector<ColumnView> columns(batch.columns.size());
    for (i64 first = 0; first < batch.rows; first += kVector) {
        u32 const rows = u32(std::min<i64>(kVector, batch.rows - first));
        for (std::size_t c = 0; c < columns.size(); ++c) {
            columns[c] = view_of(batch.columns[c], first);
        }
        plan_.build().encoder->encode(columns.data(), rows, *keys);
        std::copy_n(keys->hashes, rows, piece.hashes.begin() + first);
        if (keys->all_selected || keys->selected_count == rows) continue;
        if (piece.dropped.empty()) piece.dropped.resize(std::size_t(batch.rows), false);
        for (u32 i = 0, next = 0; i < rows; ++i) {
            bool const selected = next < keys->selected_count && keys->selected[next] == i;
            next += selected ? 1 : 0;
            piece.dropped[std::size_t(first) + i] = !selected;
        }
    }
    piece.batch = std::move(batch);
    pieces_[group].push_back(std::move(piece));
}

void JoinBuild::allocate() {
    row_count_ = 0;
    unmatchable_ = 0;
    bool const keeps_dropped = plan_.roles().build == Alone::Unmatched;
    for (u32 g = 0; g < groups_; ++g) {
        u64 dropped = 0;
        for (Piece const& piece : pieces_[g]) {
            row_count_ += piece.hashes.size();
            dropped += piece.dropped_count();
        }
        row_count_ -= dropped;
        unmatchable_of_[g] = keeps_dropped ? dropped : 0;
        unmatchable_ += unmatchable_of_[g];
    }
    u64 const bytes = all_rows() * plan_.row_bytes();
    // With the hashes, which every piece has.
    charge_.hold(JoinDirectory::bytes(row_count_) + bytes + all_rows() * sizeof(u32));
    directory_.allocate(row_count_, groups_);
    memory_ = Buffer(bytes, false);
}

template <class Use>
void JoinBuild::each_row(JoinDirectory::Part const& part, Use&& use) const {
    for (auto const& pieces : pieces_) {
        for (Piece const& piece : pieces) {
            run_.check();
            u32 const* const hashes = piece.hashes.data();
            std::size_t const rows = piece.hashes.size();
            for (std::size_t i = 0; i < rows; ++i) {
                if (i + kAhead < rows) directory_.prefetch(directory_.slot_of(hashes[i + kAhead]));
                u64 const slot = directory_.slot_of(hashes[i]);
                if (!part.has(slot)) continue;
                if (!piece.dropped.empty() && piece.dropped[i]) continue;
                use(slot, hashes[i]);
            }
        }
    }
}

void JoinBuild::count(u32 group) {
    JoinDirectory::Part part(directory_, group);
    each_row(part, [&](u64 slot, u32 hash) { part.count(slot, hash); });
    if (part.overflows()) each_row(part, [&](u64 slot, u32) { part.count_again(slot); });
    totals_[group] = part.rows();
}

void JoinBuild::place(u32 group) {
    JoinDirectory::Part part(directory_, group);
    u64 first = 0;
    for (u32 g = 0; g < group; ++g) first += totals_[g];
    part.lay_out(first);
    auto const block = std::make_unique<Block>();
    for (auto const& pieces : pieces_) {
        for (Piece const& piece : pieces) {
            run_.check();
            place_piece(piece, part, *block);
        }
    }
    if (unmatchable_of_[group] == 0) return;
    u64 next = row_count_;
    for (u32 g = 0; g < group; ++g) next += unmatchable_of_[g];
    for (Piece const& piece : pieces_[group]) {
        run_.check();
        if (!piece.dropped.empty()) place_unmatchable(piece, next, *block);
    }
}

void JoinBuild::place_piece(Piece const& piece, JoinDirectory::Part& part, Block& block) {
    u32 const rows = u32(piece.hashes.size());
    for (u32 first = 0; first < rows; first += kVector) {
        place_block(piece, first, std::min(kVector, rows - first), part, block);
    }
}

void JoinBuild::place_block(Piece const& piece, u32 first, u32 rows, JoinDirectory::Part& part,
                            Block& block) {
    u32 const* const hashes = piece.hashes.data() + first;
    block.count = 0;
    for (u32 i = 0; i < rows; ++i) {
        u64 const slot = directory_.slot_of(hashes[i]);
        if (!part.has(slot)) continue;
        if (!piece.dropped.empty() && piece.dropped[first + i]) continue;
        directory_.prefetch(slot);
        block.index[block.count++] = u16(i);
    }
    for (u32 i = 0; i < block.count; ++i) {
        block.rows[i] = row(part.next(directory_.slot_of(hashes[block.index[i]])));
        __builtin_prefetch(block.rows[i], 1);
        __builtin_prefetch(block.rows[i] + plan_.row_bytes() - 1, 1);
    }
    fill(piece, first, rows, block);
}

void JoinBuild::place_unmatchable(Piece const& piece, u64& next, Block& block) {
    u32 const all = u32(piece.hashes.size());
    for (u32 first = 0; first < all; first += kVector) {
        u32 const rows = std::min(kVector, all - first);
        block.count = 0;
        for (u32 i = 0; i < rows; ++i) {
            if (!piece.dropped[first + i]) continue;
            block.rows[block.count] = row(next++);
            block.index[block.count++] = u16(i);
        }
        fill(piece, first, rows, block);
    }
}

void JoinBuild::fill(Piece const& piece, u32 first, u32 rows, Block& block) const {
    if (block.count == 0) return;
    block.columns.resize(piece.batch.columns.size());
    for (std::size_t c = 0; c < block.columns.size(); ++c) {
        block.columns[c] = view_of(piece.batch.columns[c], first);
    }
    KeyEncoder const& encoder = *plan_.build().encoder;
    encoder.encode(block.columns.data(), rows, block.keys);
    u32 const words = encoder.words();
    if (words == 1) {
        for (u32 i = 0; i < block.count; ++i) {
            std::memcpy(block.rows[i], block.keys.words + block.index[i], 8);
        }
    } else {
        for (u32 i = 0; i < block.count; ++i) {
            std::memcpy(block.rows[i], block.keys.words + u64{block.index[i]} * words,
                        u64{words} * 8);
        }
    }
    for (BuiltValue const& value : plan_.built()) {
        place_value(value, block.columns[value.column], block);
    }
    if (!plan_.marks()) return;
    for (u32 i = 0; i < block.count; ++i) block.rows[i][plan_.mark()] = 0;
}

void JoinBuild::place_value(BuiltValue const& value, ColumnView const& view,
                            Block const& block) const {
    u32 const count = block.count;
    if (value.nullable) {
        for (u32 i = 0; i < count; ++i) {
            block.rows[i][value.validity] = valid_at(view, block.index[i]) ? 1 : 0;
        }
    }
    if (value.type.is_variable()) {
        RowTexts const texts(view, value.in_place);
        for (u32 i = 0; i < count; ++i) {
            texts.or_none(block.index[i]).store(block.rows[i] + value.offset);
        }
        return;
    }
    switch (value.type.row_width()) {
        case 0:
            for (u32 i = 0; i < count; ++i) {
                block.rows[i][value.offset] = bit_at(view, block.index[i]) ? 1 : 0;
            }
            return;
        case 1: return place_values<u8>(view, block.index, count, block.rows, value.offset);
        case 2: return place_values<u16>(view, block.index, count, block.rows, value.offset);
        case 4: return place_values<u32>(view, block.index, count, block.rows, value.offset);
        case 8: return place_values<u64>(view, block.index, count, block.rows, value.offset);
        case 16: return place_values<i128>(view, block.index, count, block.rows, value.offset);
        default:
            return place_bytes(view, block.index, count, block.rows, value.offset,
                               value.type.row_width());
    }
}

void JoinBuild::finish() {
    // Rows' texts point into the batches.
    if (plan_.built_has_texts() || !plan_.build().encoder->text_words().empty()) return;
    for (auto& pieces : pieces_) {
        pieces.clear();
        pieces.shrink_to_fit();
    }
}

}  // namespace mgi::operators
