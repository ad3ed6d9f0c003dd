/// \file
/// What is packed into the words of a lane and of its slots.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::device {

/// The ticket of a lane with long strings, 64 bits: sequence of the open slot | rows | units of its bytes region that were
/// claimed in it. A slot of which all rows are claimed is closed. A unit is 16 bytes, and more in bytes regions that have too
/// many of those (`unit_shift_of`): what a tile has for a lane is rounded up to units.
struct Ticket {
    static constexpr u32 kUnitBits = 18;
    static constexpr u32 kRowBits = 21;
    static constexpr u32 kTakenBits = kUnitBits + kRowBits;
    static constexpr u64 kSequenceMask = (u64(1) << (64 - kTakenBits)) - 1;
    static constexpr u32 kMaxRows = 1u << (kRowBits - 1);    ///< of a segment
    static constexpr u32 kMaxUnits = (1u << kUnitBits) - 1;  ///< of a segment's bytes region
    static constexpr u32 kUnitShift = 4;
    static constexpr u32 kUnitBytes = 1u << kUnitShift;  ///< of the smallest unit
    static constexpr u64 kMaxText =
        u64(1) << 31;  ///< bytes of a bytes region: so far a view's offset reaches

    /// The logarithm of a unit's bytes in a bytes region of so many bytes, at most kMaxText: 4 up to 4 MiB.
    MGI_HD static constexpr u32 unit_shift_of(u64 bytes) {
        u32 shift = kUnitShift;
        while (((bytes + (u64(1) << shift) - 1) >> shift) > kMaxUnits) ++shift;
        return shift;
    }
    /// So many bytes rounded up to whole units of their bytes region.
    MGI_HD static constexpr u64 whole_units(u64 bytes) {
        u32 const shift = unit_shift_of(bytes);
        return (bytes + (u64(1) << shift) - 1) >> shift << shift;
    }

    u64 sequence;  ///< modulo kSequenceMask + 1
    u64 taken;

    MGI_HD static constexpr Ticket of(u64 word) {
        return {word >> kTakenBits, word & ((u64(1) << kTakenBits) - 1)};
    }
    MGI_HD static constexpr u64 with_units(u32 rows, u32 units) {
        return u64(rows) << kUnitBits | units;
    }
    [[nodiscard]] MGI_HD constexpr u32 rows() const { return u32(taken >> kUnitBits); }
    [[nodiscard]] MGI_HD constexpr u32 units() const { return u32(taken) & kMaxUnits; }
    [[nodiscard]] MGI_HD constexpr u64 word() const {
        return (sequence & kSequenceMask) << kTakenBits | taken;
    }
};

/// What has been committed of a slot: rows and hole together | hole | units. One addition does
/// all three, so that the completing commit sees the totals.
struct Committed {
    MGI_HD static constexpr u64 word(u32 rows, u32 hole, u32 units) {
        return u64(rows + hole) | u64(hole) << 21 | u64(units) << 42;
    }
    MGI_HD static constexpr u32 total(u64 word) { return u32(word) & 0x1fffff; }
    MGI_HD static constexpr u32 hole(u64 word) { return u32(word >> 21) & 0x1fffff; }
    MGI_HD static constexpr u32 units(u64 word) { return u32(word >> 42); }
};

/// What a filled slot holds: rows | units << 32 | address << 50. The address is the one destination that the rows are
/// for, plus 1, of a lane that is for several; 0: they are for all of them.
struct Content {
    static constexpr u32 kUnitShift = 32;
    static constexpr u32 kAddressShift = kUnitShift + Ticket::kUnitBits;
    static constexpr u32 kMaxAddress = (1u << (64 - kAddressShift)) - 1;

    MGI_HD static constexpr u64 word(u32 rows, u32 units, u32 address = 0) {
        return u64(rows) | u64(units) << kUnitShift | u64(address) << kAddressShift;
    }
    MGI_HD static constexpr u32 rows(u64 word) { return u32(word); }
    MGI_HD static constexpr u32 units(u64 word) {
        return u32(word >> kUnitShift) & Ticket::kMaxUnits;
    }
    MGI_HD static constexpr u32 address(u64 word) { return u32(word >> kAddressShift); }
    /// The same for a destination alone, without the address: of what is for another one, no rows.
    MGI_HD static constexpr u64 at(u64 word, u32 destination) {
        if (address(word) == 0) return word;
        return address(word) == destination + 1 ? Content::word(rows(word), units(word)) : 0;
    }
};

}  // namespace mgi::device
