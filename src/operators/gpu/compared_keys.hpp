// The keys of a join as they are compared: a side's parts, with a column more for each key whose values are converted to the
// other side's form. One source for g++ and nvcc.
#pragma once

#include <array>

#include "operators/gpu/outputs.hpp"
#include "operators/key_pairs.hpp"

namespace mgi::operators::on_gpu {

// Writes a column's values in another form, and which of them have an equal there.
struct ConvertKeys {
    MGI_HD void operator()(device::Group const& group, device::Shared&, KeyConversion how,
                           ColumnView from, u64 rows, OutputColumn to) const {
        auto const* const values =
            static_cast<char const*>(from.values) + from.offset * u64{how.from};
        u64 const step = u64{group.threads} * group.blocks;
        for (u64 i = u64{group.block} * group.threads + group.thread; i < rows; i += step) {
            bool const has_equal = how.convert(values + i * how.from, to.values + i * how.to);
            to.valid[i] = has_equal && is_valid(from, i) ? 1 : 0;
        }
    }
};

// What parts point to must outlive it.
class ComparedSide {
public:
    ComparedSide(Operation& operation, Input const& input, std::vector<ComparedKey> const& keys)
        : given_(input) {
        Schema const& schema = input.schema();
        std::vector<Field> added;
        for (ComparedKey const& key : keys) {
            keys_.push_back(key.conversion ? u32(schema.size() + added.size()) : key.column);
            if (!key.conversion) continue;
            Field field{schema[key.column].name, key.type, true};
            // Keys are named, so no other column may have the name.
            auto const is_there = [&](Field const& one) { return one.name == field.name; };
            while (has_name(schema, field.name) ||
                   std::any_of(added.begin(), added.end(), is_there)) {
                field.name += '\'';
            }
            added.push_back(field);
        }
        if (added.empty()) return;
        std::vector<Field> fields = schema.fields();
        fields.insert(fields.end(), added.begin(), added.end());
        parts_.assign(operation.size(), no_rows(Schema(fields)));
        operation.each([&](std::size_t e) {
            if (input.rows(e) == 0) return;
            GpuTable& part = parts_[e];
            part = input.part(e);
            part.schema = Schema(fields);
            GpuTable const converted = convert(operation.place(e), part, keys, Schema(added));
            part.columns.insert(part.columns.end(), converted.columns.begin(),
                                converted.columns.end());
            part.owner = std::make_shared<std::array<std::shared_ptr<void const>, 2>>(
                std::array{part.owner, converted.owner});
        });
        with_keys_.emplace(operation, parts_, input.side());
        operation.end_phase("convert keys");
    }

    [[nodiscard]] Input const& input() const { return with_keys_ ? *with_keys_ : given_; }
    // The columns of `input` that are compared, by key.
    [[nodiscard]] std::vector<u32> const& keys() const { return keys_; }

private:
    static GpuTable convert(Place& place, GpuTable const& part,
                            std::vector<ComparedKey> const& keys, Schema const& to) {
        OutputTable output(place, to, std::vector<bool>(to.size(), true), u64(part.rows),
                           "keys in the other side's form");
        auto const columns = output.columns();
        auto next = columns.begin();
        for (ComparedKey const& key : keys) {
            if (!key.conversion) continue;
            place.run(0, ConvertKeys{}, *key.conversion, view_of(part.columns[key.column]),
                      u64(part.rows), *next++);
        }
        return output.table();
    }

    Input const& given_;
    std::vector<u32> keys_;
    std::vector<GpuTable> parts_;
    std::optional<Input> with_keys_;
};

}  // namespace mgi::operators::on_gpu
