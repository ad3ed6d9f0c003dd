#include <string>

#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_read_column.hpp"

namespace mgi::arrow {
namespace {

using Kind = Nested::Kind;

std::int64_t least_buffers(Nested const& type) {
    switch (type.kind) {
        case Kind::Null:
        case Kind::Runs: return 0;
        case Kind::Struct:
        case Kind::FixedList:
        case Kind::SparseUnion: return 1;
        case Kind::Text: return 3;
        case Kind::List: return type.offsets < Nested::Offsets::Views ? 2 : 3;
        default: return 2;
    }
}

class Checking {
public:
    Checking(Nested const& type, std::string const& name, ArrowArray const& array)
        : type_(type), name_(name), array_(array) {}

    void check() const {
        if ((array_.dictionary != nullptr) != (type_.kind == Kind::Dictionary)) {
            malformed("is dictionary-encoded or not, unlike its schema");
        }
        if (!possible(array_.offset, array_.length)) {
            malformed("has an impossible offset or length");
        }
        check_buffers();
        std::size_t const children = type_.kind == Kind::Runs         ? 2
                                     : type_.kind == Kind::Dictionary ? 0
                                                                      : type_.children.size();
        if (array_.n_children != std::int64_t(children)) {
            malformed("has " + std::to_string(array_.n_children) + " children instead of " +
                      std::to_string(children));
        }
        for (std::size_t i = 0; i < children; ++i) {
            ArrowArray const& child = child_of(array_, std::int64_t(i), "nested value");
            if (child.length < needed_of_children()) {
                malformed("has a child of " + std::to_string(child.length) +
                          " values, fewer than it needs");
            }
        }
        if (type_.kind == Kind::Runs) check_runs();
    }

private:
    [[noreturn]] void malformed(std::string const& what) const {
        throw Error(ErrorCode::InvalidArgument,
                    "column '" + name_ + "': the Arrow array of a nested value " + what);
    }

    void check_buffers() const {
        std::int64_t const least = least_buffers(type_);
        if (array_.n_buffers < least || (least != 0 && array_.buffers == nullptr)) {
            malformed("has " + std::to_string(array_.n_buffers) + " buffers instead of " +
                      std::to_string(least));
        }
        // Text may lack its characters, and what has validity that.
        std::int64_t const first = nested_has_validity(type_.kind) ? 1 : 0;
        std::int64_t const end = type_.kind == Kind::Text ? 2 : least;
        for (std::int64_t i = first; array_.length > 0 && i < end; ++i) {
            if (array_.buffers[i] == nullptr) malformed("lacks buffer " + std::to_string(i));
        }
        bool const counts = first == 1 && array_.null_count > 0;
        if (counts && array_.buffers[0] == nullptr) {
            malformed("counts nulls but has no validity bits");
        }
        bool const views = type_.kind == Kind::Text && type_.offsets >= Nested::Offsets::Views;
        if (views && array_.n_buffers > 3) check_data_buffers();
    }
    /// Those of views, and their sizes behind them.
    void check_data_buffers() const {
        void const* const sizes = array_.buffers[array_.n_buffers - 1];
        if (sizes == nullptr) malformed("has no sizes of its data buffers");
        for (std::int64_t i = 0; i < array_.n_buffers - 3; ++i) {
            std::int64_t const size = load_at(static_cast<std::int64_t const*>(sizes), i);
            if (size < 0 || (size > 0 && array_.buffers[2 + i] == nullptr)) {
                malformed("has a data buffer of " + std::to_string(size) +
                          " bytes that is not there");
            }
        }
    }

    /// Of children whose values stand beside this array's.
    [[nodiscard]] std::int64_t needed_of_children() const {
        std::int64_t const rows = array_.offset + array_.length;
        if (type_.kind == Kind::Struct || type_.kind == Kind::SparseUnion) return rows;
        if (type_.kind != Kind::FixedList || type_.width == 0) return 0;
        bool const fits = rows <= kMostRows / std::int64_t(type_.width);
        return fits ? rows * std::int64_t(type_.width) : kMostRows;
    }

    void check_runs() const {
        if (are_run_ends(*array_.children[0], array_.children[1]->length)) return;
        malformed("has run ends that cannot be");
    }

    Nested const& type_;
    std::string const& name_;
    ArrowArray const& array_;
};

}  // namespace

void check_nested_array(Nested const& type, std::string const& name, ArrowArray const& array) {
    Checking(type, name, array).check();
}

}  // namespace mgi::arrow
