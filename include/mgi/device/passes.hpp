/// \file
/// How several threads send tiles whose values fit their scratch, as thread blocks of a GPU do: a pass for each
/// tile. Its values are brought to the scratch by copies that nobody waits for while the tile before is
/// committed, its rows are ranked within their lanes, and every value is read from far away once. Claims and
/// commits are trips to far memory that few threads make: clerks make them while the other threads, the
/// workers, bring, rank and order rows (see Crew).
#pragma once

#include <mgi/device/delivery.hpp>
#include <mgi/device/segment_writer.hpp>

namespace mgi::device {

/// What is the same for all passes of a call, at the start of the group's scratch.
template <class A>
struct PassPlan {
    Group group;  ///< but for the thread
    ChannelState<A>* state = nullptr;
    u32 source = 0;
    TileShape shape;
    Router router;
    Batch batch;
    Lane<A>* lanes = nullptr;
    u64* last = nullptr;  ///< GroupState::last
    char* pool = nullptr;
    char const* keys = nullptr;  ///< of the tile at hand, with Router::plain
    u32 key_stride = 0;
    u32 columns = 0;
    u32 moves = 0;           ///< of a row: one for each column, or one for all of it
    u32 stop = 0;            ///< not all of the tile's rows have room, or the channel has failed
    bool whole = false;      ///< row structs stay row structs
    bool ordered = false;    ///< ChannelState::ordered
    SegmentLayout layout{};  ///< with the columns at hand
};

/// One group's passes of one call. All of its threads make one alike. What a thread keeps while it works is
/// little: the rest is in the plan, which is nearer than what has found no register.
template <class A>
class Passes {
public:
    /// Of a channel's source, for a batch; all threads together.
    MGI_HD Passes(Group const& group, Shared const& shared, ChannelState<A>& state, u32 source,
                  Batch const& batch)
        : Passes(group.thread, shared) {
        prepare(group, shared, state, source, batch);
    }

    struct Result {
        u64 accepted = 0;   ///< rows, of which the last tile's may have found no room
        u32 tile_rows = 0;  ///< of the last tile
        bool left = false;  ///< some of its rows have no room: `tile` says which
    };

    /// Sends rows of the batch, which has some, until all are placed, a lane has no room, the channel has failed or there
    /// were enough.
    MGI_HD Result send() {
        if (crew().is_worker()) bring(0);
        for (u32 number = 0;; ++number) {
            if (crew().is_worker()) await_tile();
            crew().sync_workers();
            if (crew().is_worker()) rank(number);
            crew().await_counts();
            if (crew().is_worker())
                shared_sums(crew().workers(), tile().count, lanes(), tile().start);
            crew().sync_workers();
            start_lanes();
            if (crew().is_clerk()) claim_all();
            if (crew().is_worker()) {
                order_rows(crew().workers(), tile(number), lanes(), tile().start, plan().ordered);
            }
            group().sync();
            bool const stop = plan().stop != 0;
            if (crew().is_worker()) write(crew().workers(), number);
            crew().await_rows();
            bool const more =
                number + 1 < TileShape::kMostTiles && first_of(number + 1) < plan().batch.count;
            if (more && !stop && crew().is_worker()) bring(number + 1);
            if (crew().is_clerk()) commit(crew().clerks());
            if (stop) {
                bool const left = !place_rest(thread_, {scratch_, 0}, number);
                if (left || group_agrees_on_failure()) return result_of(number, left);
                if (more && crew().is_worker()) bring(number + 1);
            }
            if (!more) {
                // Clerks have done with the scratch, which is the kernel's between calls.
                group().sync();
                return result_of(number, false);
            }
        }
    }

    /// The tile at hand.
    [[nodiscard]] MGI_HD Tile tile() const {
        Tile tile = Tile::in({scratch_, 0}, plan().shape);
        tile.sorted = true;
        return tile;
    }

private:
    /// Beyond it all threads claim.
    static constexpr u32 kMostLanesOfClerks = 128;

    /// Of passes that are under way.
    MGI_HD Passes(u32 thread, Shared const& shared)
        : thread_(thread), scratch_(in_scratch(shared.data)) {}

    [[nodiscard]] MGI_HD Group group() const {
        Group group = plan().group;
        group.thread = thread_;
        return group;
    }
    [[nodiscard]] MGI_HD Crew crew() const {
        return Crew(group(), plan().shape.lanes <= kMostLanesOfClerks);
    }
    [[nodiscard]] MGI_HD PassPlan<A>& plan() const {
        return *reinterpret_cast<PassPlan<A>*>(scratch_);
    }
    [[nodiscard]] MGI_HD u32 lanes() const { return plan().shape.lanes; }
    [[nodiscard]] MGI_HD LaneForm<A> const& form(Tile const& tile, u32 lane) const {
        return static_cast<LaneForm<A> const*>(tile.forms)[lane];
    }

    /// Writes down what all passes go by. An agreement came before.
    MGI_HD MGI_COLD static void prepare(Group group, Shared shared, ChannelState<A>& state,
                                        u32 number, Batch batch) {
        static_assert(sizeof(PassPlan<A>) <= TileShape::kPlanBytes);
        static_assert(sizeof(LaneForm<A>) == TileShape::kFormBytes);
        TileShape const shape = tile_shape(state);
        Tile const tile = Tile::in(shared, shape);
        u32 const columns = shape.columns;
        bool const structs = batch.rows != nullptr;
        for (u32 c = group.thread; c < columns; c += group.threads) {
            ColumnLayout const column = state.layout.columns[c];
            tile.columns[c] = column;
            u32 at = 0;
            for (u32 e = 0; e < c; ++e) {
                at += staged_column_bytes(state.layout.columns[e], shape.rows);
            }
            ColumnSource source;
            source.staged_at = at;
            if (!structs && column.storage == Storage::Fixed) {
                source.values = batch.fixed(column, c, 0);
                source.brought = batch.columns[c].validity == nullptr;
            }
            tile.sources[c] = source;
        }
        for (u32 d = group.thread; d < shape.lanes; d += group.threads) {
            static_cast<LaneForm<A>*>(tile.forms)[d] = state.sources[number].lanes[d].form();
        }
        if (group.leads()) {
            PassPlan<A>& plan = *reinterpret_cast<PassPlan<A>*>(shared.data);
            plan.group = group;
            plan.state = &state;
            plan.source = number;
            plan.shape = shape;
            plan.router = Router(state);
            plan.router.plain = plan.router.plain && batch.all_valid(plan.router.key);
            plan.batch = batch;
            plan.lanes = state.sources[number].lanes;
            plan.stop = 0;
            plan.ordered = state.ordered;
            plan.last = state.sources[number].groups[group.block].last;
            plan.pool = state.pool;
            plan.columns = columns;
            plan.layout = state.layout;
            plan.layout.columns = tile.columns;
            plan.whole =
                structs && state.layout.rows_together && batch.row_stride == state.layout.row_bytes;
            plan.moves = plan.whole ? 1 : columns;
        }
        group.sync();
    }

    [[nodiscard]] MGI_HD Tile tile(u32 number) const {
        Tile tile = this->tile();
        tile.rows = rows_of(number);
        return tile;
    }
    /// The first row of a tile in the batch.
    [[nodiscard]] MGI_HD u64 first_of(u32 number) const { return u64(number) * plan().shape.rows; }
    [[nodiscard]] MGI_HD u32 rows_of(u32 number) const {
        return u32(min_of<u64>(plan().batch.count - first_of(number), plan().shape.rows));
    }
    [[nodiscard]] MGI_HD Result result_of(u32 number, bool left) const {
        u32 const rows = rows_of(number);
        return {first_of(number) + rows, rows, left};
    }

    /// Starts to bring the tile of that number into the scratch: row structs, and columns of fixed width without
    /// nulls. `wait_for_copies` and a group barrier must follow.
    MGI_HD void bring(u32 number) {
        PassPlan<A>& plan = this->plan();
        Tile const tile = this->tile();
        Group const workers = crew().workers();
        u64 const first = first_of(number);
        u32 const rows = rows_of(number);
        if (plan.batch.rows != nullptr) return bring_structs(plan, tile, first, rows);
        for (u32 c = 0; c < plan.columns; ++c) {
            ColumnSource const source = tile.sources[c];
            if (source.values == nullptr) {
                if (c % workers.threads == workers.thread) tile.moves[c] = ColumnMove{};
                continue;
            }
            ColumnLayout const column = tile.columns[c];
            char const* from = source.values + first * column.width;
            if (source.brought) {
                from = copy_to_scratch(workers, tile.staged + source.staged_at, from,
                                       rows * column.width);
            }
            if (c % workers.threads != workers.thread) continue;
            tile.moves[c] = {from, column.width, column.offset, column.stride, column.width};
            if (c == plan.router.key) {
                plan.keys = from;
                plan.key_stride = column.width;
            }
        }
    }

    MGI_HD void bring_structs(PassPlan<A>& plan, Tile const& tile, u64 first, u32 rows) {
        Group const workers = crew().workers();
        u32 const stride = plan.batch.row_stride;
        char const* const at =
            copy_to_scratch(workers, tile.staged, plan.batch.rows + first * stride, rows * stride);
        ColumnLayout const* const columns = tile.columns;
        if (workers.leads()) {
            plan.keys = at + columns[plan.router.key].row_offset;
            plan.key_stride = stride;
            if (plan.whole) {
                tile.moves[0] = {at, stride, columns[0].offset - columns[0].row_offset, stride,
                                 stride};
            }
        }
        if (plan.whole) return;
        for (u32 c = workers.thread; c < plan.columns; c += workers.threads) {
            ColumnLayout const& column = columns[c];
            tile.moves[c] = {};
            if (column.storage == Storage::Fixed) {
                tile.moves[c] = {at + column.row_offset, stride, column.offset, column.stride,
                                 column.width};
            }
        }
    }

    /// The tile that was brought is there, as far as this thread has to do with it.
    MGI_HD void await_tile() {
        Tile const tile = this->tile();
        Group const workers = crew().workers();
        u32 const lanes = this->lanes();
        for (u32 d = workers.thread; d < lanes; d += workers.threads) tile.count[d] = 0;
        wait_for_copies();
    }

    /// Finds every row's lane, and its rank there among those of the tile.
    MGI_HD void rank(u32 number) {
        u32 const rows = rows_of(number);
        PassPlan<A> const& plan = this->plan();
        Tile const tile = this->tile();
        Group const workers = crew().workers();
        Router const router = plan.router;
        char const* const keys = plan.keys;
        u32 const stride = plan.key_stride;
        u32 const lanes = plan.shape.lanes;
        if (!router.plain) {
            find_parts_of_any(workers, *plan.state, plan.batch, first_of(number), rows,
                              router.parts, tile.lane);
        }
        for_rows_at_once(
            workers, rows,
            [&tile, &router, keys, stride, rows, lanes](u32 const(&row)[kRowsAtOnce],
                                                        bool const(&counts)[kRowsAtOnce]) {
                u32 lane[kRowsAtOnce];
                if (router.plain) {
                    u64 key[kRowsAtOnce];
                    for (u32 k = 0; k < kRowsAtOnce; ++k) {
                        key[k] = load_value<u64>(keys + min_of(row[k], rows - 1) * stride);
                    }
                    for (u32 k = 0; k < kRowsAtOnce; ++k) {
                        lane[k] = destination_of_hash(murmur3_mix(key[k]), router.parts);
                    }
                } else {
                    for (u32 k = 0; k < kRowsAtOnce; ++k)
                        lane[k] = counts[k] ? tile.lane[row[k]] : 0;
                }
                if (router.owners != nullptr) {
                    for (u32 k = 0; k < kRowsAtOnce; ++k) lane[k] = router.owners[lane[k]];
                }
                u32 rank[kRowsAtOnce];
                shared_ranks(tile.count, lanes, lane, counts, rank);
                for (u32 k = 0; k < kRowsAtOnce; ++k) {
                    if (!counts[k]) continue;
                    tile.lane[row[k]] = u16(lane[k]);
                    tile.rank[row[k]] = u16(rank[k]);
                }
            });
    }

    /// Once the rows are counted: where each lane begins, for those who claim.
    MGI_HD void start_lanes() {
        if (crew().is_clerk()) {
            Tile const tile = this->tile();
            Group const clerks = crew().clerks();
            if (clerks.leads()) plan().stop = 0;
            if (crew().apart()) {
                shared_sums(clerks, tile.count, lanes(), tile.next);
            } else {
                for (u32 d = clerks.thread; d < lanes(); d += clerks.threads) {
                    tile.next[d] = tile.start[d];
                }
            }
        }
        crew().sync_clerks();
    }

    /// Each clerk for its lanes: takes rows of them for the tile's, and claims what is free.
    MGI_HD void claim_all() {
        Tile const tile = this->tile();
        Group const clerks = crew().clerks();
        u32 const lanes = this->lanes();
        bool stop = clerks.leads() && plan().state->failed.load(relaxed) != 0;
        for (u32 d = clerks.thread; d < lanes; d += clerks.threads) {
            u32 const rows = tile.count[d];
            tile.end[d] = tile.next[d] + rows;
            tile.at[d] = rows == 0 ? 0 : plan().lanes[d].take(rows);
            stop = claim(tile, d) != rows || stop;
        }
        if (stop) shared_add(&plan().stop, 1);
    }

    /// Claims what is left of a lane's rows as far as two slots go, and says where they are written. Returns how
    /// many it got.
    MGI_HD u32 claim(Tile const& tile, u32 d) {
        PassPlan<A> const& plan = this->plan();
        u32 const next = tile.next[d];
        u32 const wanted = tile.end[d] - next;
        Claim first;
        Claim second;
        if (wanted != 0) {
            LaneForm<A> const& form = this->form(tile, d);
            first = claim_taken(*plan.state, plan.lanes[d], tile.at[d], wanted, form);
            u32 const rest = wanted - first.rows;
            // Bits are written claim by claim.
            if (first.rows != 0 && rest != 0 && plan.layout.bit_bytes == 0) {
                second = Lane<A>::claim(tile.at[d] + first.rows, rest, form);
            }
        }
        tile.claims[d] = first;
        tile.seconds[d] = second;
        tile.targets[d] = {plan.pool + first.offset, first, next};
        tile.targets[plan.shape.lanes + d] = {plan.pool + second.offset, second, next + first.rows};
        return first.rows + second.rows;
    }

    /// The width of every column, if all are brought to the scratch, packed and moved at once; else 0.
    [[nodiscard]] MGI_HD u32 packed_width(Tile const& tile, u32 moves) const {
        u32 const width = tile.moves[0].width;
        for (u32 c = 0; c < moves; ++c) {
            ColumnMove const move = tile.moves[c];
            bool const brought = plan().batch.rows != nullptr || tile.sources[c].brought;
            if (!brought || !move.packed() || move.unit != width) return 0;
        }
        return width;
    }

    /// Writes the claimed rows; by threads that number themselves as `writers`.
    MGI_HD void write(Group const& writers, u32 number) {
        PassPlan<A> const& plan = this->plan();
        Tile const tile = this->tile(number);
        u32 const lanes = plan.shape.lanes;
        auto const target_of = [&tile, lanes](u32 lane, u32 position) {
            LaneTarget const first = tile.targets[lane];
            return first.has(position) ? first : tile.targets[lanes + lane];
        };
        u32 const width = packed_width(tile, plan.moves);
        if (width == 8) {
            write_packed<u64>(writers, tile, plan.moves, target_of);
        } else if (width == 16) {
            write_packed<Wide16>(writers, tile, plan.moves, target_of);
        } else if (width == 4) {
            write_packed<u32>(writers, tile, plan.moves, target_of);
        } else {
            write_together(
                writers, tile, plan.moves, [&tile](u32 c) { return tile.moves[c]; }, target_of);
        }
        if (plan.layout.bit_bytes != 0) {
            write_bits_and_views(writers, tile, plan.shape.lanes, plan.batch, first_of(number),
                                 plan.layout, ClaimedSegments{plan.pool, tile.claims});
        }
    }

    /// Each of the threads for its lanes: commits what was claimed.
    MGI_HD void commit(Group const& clerks) {
        PassPlan<A> const& plan = this->plan();
        Tile const tile = this->tile();
        for (u32 d = clerks.thread; d < plan.shape.lanes; d += clerks.threads) {
            if (tile.claims[d].rows != 0) commit(plan, tile, d, tile.claims[d]);
            if (tile.seconds[d].rows != 0) commit(plan, tile, d, tile.seconds[d]);
        }
    }

    MGI_HD void commit(PassPlan<A> const& plan, Tile const& tile, u32 d, Claim const& done) {
        tile.next[d] += done.rows;
        tile.at[d] += done.rows;
        plan.last[d] = done.sequence + 1;
        if (Lane<A>::commit(done.slot, done.rows, 0, 0, form(tile, d))) {
            publish_slot(*plan.state, plan.source, d, done.sequence);
        }
    }

    [[nodiscard]] MGI_HD bool group_agrees_on_failure() const {
        Group const group = this->group();
        return any_of(group, tile().agreed,
                      group.leads() && plan().state->failed.load(relaxed) != 0);
    }

    /// Places what of a tile has found no room at once; true when all of it has. By all threads alike.
    MGI_HD MGI_COLD static bool place_rest(u32 thread, Shared shared, u32 number) {
        Passes passes(thread, shared);
        Group const group = passes.group();
        Tile const tile = passes.tile();
        for (;;) {
            group.sync();  // also: clerks have committed
            bool left = false;
            bool moved = false;
            for (u32 d = group.thread; d < passes.lanes(); d += group.threads) {
                u32 const wanted = tile.end[d] - tile.next[d];
                u32 const got = passes.claim(tile, d);
                left = left || got != wanted;
                moved = moved || got != 0;
            }
            if (!any_of(group, tile.agreed, left || moved)) return true;
            if (!any_of(group, tile.agreed, moved)) return false;
            passes.write(group, number);
            group.sync();
            passes.commit(group);
        }
    }

    u32 const thread_;
    std::byte* const scratch_;
};

}  // namespace mgi::device
