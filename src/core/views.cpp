#include "core/views.hpp"

#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>

namespace mgi::arrow {
namespace {

using device::StringView16;

/// Keeps the characters' owner and the views that point into them.
struct ViewsOwner {
    std::shared_ptr<void const> characters;
    std::vector<std::unique_ptr<StringView16[]>> views;
};

constexpr std::int64_t kMaxBufferBytes = std::numeric_limits<std::int32_t>::max();

template <class Offset>
class ViewsOf {
public:
    ViewsOf(Column const& from, std::int64_t rows, std::string const& name)
        : from_(from),
          offsets_(static_cast<Offset const*>(from.values)),
          rows_(rows),
          name_(name) {}

    /// Writes views of all rows behind `skip` unused ones, and the data buffers they point into.
    void build(StringView16* out, std::int64_t skip, Column& to) {
        for (std::int64_t row = 0; row < rows_; ++row) {
            std::int64_t const at = from_.offset + row;
            bool const valid =
                from_.validity == nullptr || device::bit_at(from_.validity, std::uint64_t(at));
            if (valid) out[skip + row] = view(offsets_[at], offsets_[at + 1], to);
        }
    }

private:
    StringView16 view(std::int64_t begin, std::int64_t end, Column& to) {
        StringView16 value;
        std::int64_t const length = end - begin;
        if (length > kMaxBufferBytes) {
            throw Error(ErrorCode::InvalidArgument, "column '" + name_ + "': a value of " +
                                                        std::to_string(length) +
                                                        " bytes is too long for an Arrow view");
        }
        auto const* const text = reinterpret_cast<char const*>(from_.bytes) + begin;
        value.length = std::uint32_t(length);
        if (value.length <= StringView16::kInline) {
            if (length != 0) std::memcpy(value.text, text, std::size_t(length));
            return value;
        }
        // A view reaches 2 GiB into its buffer; beyond that the same memory counts as another one.
        if (to.buffers.empty() || end - base_ > kMaxBufferBytes) {
            base_ = begin;
            to.buffers.push_back(from_.bytes + begin);
            to.buffer_sizes.push_back(0);
        }
        std::memcpy(value.ref.prefix, text, sizeof(value.ref.prefix));
        value.ref.buffer = std::uint32_t(to.buffers.size() - 1);
        value.ref.offset = std::uint32_t(begin - base_);
        to.buffer_sizes.back() = end - base_;
        return value;
    }

    Column const& from_;
    Offset const* const offsets_;
    std::int64_t const rows_;
    std::string const& name_;
    std::int64_t base_ = 0;  ///< where the last data buffer starts
};

}  // namespace

RecordBatch with_views(RecordBatch const& batch, std::vector<std::size_t> const& columns) {
    auto owner = std::make_shared<ViewsOwner>();
    owner->characters = batch.owner;
    RecordBatch result = batch;
    for (std::size_t const c : columns) {
        Column const& from = batch.columns.at(c);
        if (from.encoding != Encoding::Offsets32 && from.encoding != Encoding::Offsets64) continue;
        // Validity bits keep their place in their byte, hence up to seven views in front.
        std::int64_t const skip = from.offset % 8;
        auto views = std::make_unique<StringView16[]>(std::size_t(skip + batch.rows));
        Column& to = result.columns[c];
        to = Column{};
        to.encoding = Encoding::Views;
        to.values = views.get();
        to.offset = skip;
        if (from.validity != nullptr) to.validity = from.validity + from.offset / 8;
        if (from.encoding == Encoding::Offsets32) {
            ViewsOf<std::int32_t>(from, batch.rows, batch.schema[c].name)
                .build(views.get(), skip, to);
        } else {
            ViewsOf<std::int64_t>(from, batch.rows, batch.schema[c].name)
                .build(views.get(), skip, to);
        }
        owner->views.push_back(std::move(views));
    }
    result.owner = std::move(owner);
    return result;
}

}  // namespace mgi::arrow
