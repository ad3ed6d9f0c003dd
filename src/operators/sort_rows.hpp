// The rows that an endpoint sorts, and sorting them.
#pragma once

#include <functional>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device/order.hpp>

#include "operators/columns.hpp"
#include "operators/sort_words.hpp"

namespace mgi::operators {

// Batches of one schema, read by batch and row. Reading from several threads is safe.
class SortRows {
public:
    // `has_nulls`: by column.
    SortRows(Schema const& schema, std::vector<device::KeyOrder> keys, std::vector<bool> has_nulls);

    // Takes the batches.
    void take(std::vector<std::vector<RecordBatch>> batches);

    [[nodiscard]] u64 rows() const { return rows_; }
    [[nodiscard]] std::vector<device::KeyOrder> const& keys() const { return keys_; }
    [[nodiscard]] bool has_nulls(u32 key) const { return has_nulls_[keys_[key].column]; }
    [[nodiscard]] ColumnView const& column(u32 column, u32 batch) const {
        return views_[batch * width_ + column];
    }

    // Entries of the rows [first, last) of all batches one behind the other, with the first key's words.
    void fill(u64 first, u64 last, SortEntry* to) const;
    // A number that orders rows which are equal by all keys before this one.
    [[nodiscard]] u64 word(SortEntry const& at, u32 key) const {
        return device::order_word(batch_of(at), keys_[key], layouts_[keys_[key].column], at.row);
    }
    // All of a key's value.
    [[nodiscard]] device::OrderedValue value(SortEntry const& at, u32 key) const {
        return device::ordered_value(batch_of(at), keys_[key], layouts_[keys_[key].column], at.row);
    }
    [[nodiscard]] bool is_null(SortEntry const& at, u32 key) const {
        return !batch_of(at).valid(keys_[key].column, at.row);
    }
    // Below 0, 0 or above it, by this key and those behind it.
    [[nodiscard]] int compare(SortEntry const& a, SortEntry const& b, u32 first_key) const;

private:
    [[nodiscard]] device::Batch batch_of(SortEntry const& at) const {
        device::Batch batch;
        batch.columns = views_.data() + at.batch * width_;
        return batch;
    }

    std::vector<device::KeyOrder> keys_;
    std::vector<bool> has_nulls_;
    std::vector<device::ColumnLayout> layouts_;
    std::size_t width_;  // columns of a batch
    std::vector<RecordBatch> batches_;
    std::vector<ColumnView> views_;  // batch by batch
    std::vector<u64> begins_;        // by batch: rows before it
    u64 rows_ = 0;
};

// Sorts entries of rows: by the first key's words, rows whose words are equal by what these hide, then by the next
// key. Not thread-safe.
class RowSorter {
public:
    // `check` is called now and then, and may throw.
    RowSorter(SortRows const& rows, std::function<void()> check)
        : rows_(rows), check_(std::move(check)) {}

    // In `at`, which has the first key's words; they do not keep them. `scratch` has room for as many.
    void sort(SortEntry* at, SortEntry* scratch, u64 count) { sort_by({at, scratch, count}, 0, 0); }

private:
    // Rows that are equal so far.
    struct Equal {
        SortEntry* at;
        SortEntry* scratch;
        u64 count;

        [[nodiscard]] Equal part(u64 first, u64 last) const {
            return {at + first, scratch + first, last - first};
        }
    };

    // Sorts by the words that are there, those of a key's level.
    void sort_by(Equal const& rows, u32 key, u32 level);
    // Calls `visit` with each run of several equal words.
    template <class Visit>
    void for_ties(Equal const& rows, Visit const& visit);
    // Goes on with rows whose words are equal.
    void resolve(Equal const& rows, u32 key, u32 level);
    void resolve_values(Equal const& rows, u32 key, u32 level);
    void resolve_texts(Equal const& rows, u32 key, u32 level);
    void next_key(Equal const& rows, u32 key);
    void next_level(Equal const& rows, u32 key, u32 level);
    [[nodiscard]] u64 level_word(SortEntry const& at, u32 key, u32 level) const;

    SortRows const& rows_;
    std::function<void()> check_;
    u64 since_check_ = 0;
};

}  // namespace mgi::operators
