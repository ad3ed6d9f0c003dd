#include "control/http/readers.hpp"

#include <algorithm>
#include <utility>

namespace mgi::control {

Readers::Place Readers::enter(std::shared_ptr<net::Connection> connection) {
    std::lock_guard const lock(mutex_);
    if (stopping_) connection->close();
    return readers_.insert(readers_.end(), {std::move(connection)});
}

void Readers::leave(Place place) {
    std::lock_guard const lock(mutex_);
    if (place->admitted) --admitted_;
    readers_.erase(place);
}

void Readers::admit(Place place) {
    std::lock_guard const lock(mutex_);
    if (std::exchange(place->admitted, true)) return;
    if (++admitted_ <= most_) return;
    auto const other = [&](bool busy) {
        return std::find_if(readers_.begin(), readers_.end(), [&](Reader& reader) {
            return &reader != &*place && reader.admitted && reader.busy == busy;
        });
    };
    Place oldest = other(false);
    if (oldest == readers_.end()) oldest = other(true);
    if (oldest == readers_.end()) return;
    oldest->admitted = false;
    --admitted_;
    oldest->connection->abort("it made room for another reader");
}

void Readers::set_busy(Place place, bool busy) {
    std::lock_guard const lock(mutex_);
    place->busy = busy;
    readers_.splice(readers_.end(), readers_, place);
}

void Readers::stop() {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
    for (Reader const& reader : readers_) {
        if (!reader.busy) reader.connection->close();
    }
}

bool Readers::stopping() const {
    std::lock_guard const lock(mutex_);
    return stopping_;
}

}  // namespace mgi::control
