// The lane (include/mgi/device/lane.hpp, delivery.hpp): several groups fill the segments of one lane,
// a consumer reads them in place and frees the slots, laps included. One Promela step is one atomic
// operation of the code; words that one CAS or fetch_add changes together change in one d_step.
//
// Asserted: a row is written into a free place, read as it was written, once; segments are delivered
// in sequence; flush is `done` only when the group's rows were handed to the receive queue; at the
// end nothing is missing. A wait for something that never comes is an invalid end state.
//
// A group takes rows of the lane, whether their slots are free or not, and places them slot by slot; what
// has no room it carries. Who pushes places what the other groups carry as well. Of a lane with long strings
// rows are taken by CAS, and of the open slot alone: fewer interleavings.
//
// QUIET: a group that carries rows is not called again until another one's rows were read, which pushes until its push is
// done and then waits; slots come free in any order.
//
// models: pass
// models: pass -DSENDERS=3 -DROWS=1 -DR=1
// models: pass -DROWS=2 ltl(everything_ends)
// models: pass -DQUIET
// models: fail(assertion) -DBROKEN_CLAIM_WITHOUT_LAP
// models: fail(assertion) -DBROKEN_HELP_WITHOUT_HOLD
// models: fail(assertion) -DBROKEN_SEAL_OF_A_SLOT_IN_USE
// models: fail(assertion) -DBROKEN_FREE_BEFORE_READ
// models: fail(assertion) -DBROKEN_RESET_AFTER_PUBLISH
// models: fail(assertion) -DBROKEN_DONE_AT_COMMIT
// models: fail(deadlock)  -DQUIET -DBROKEN_PUSH_ONCE
// models: fail(deadlock)  -DBROKEN_NO_SECOND_LOOK
// models: fail(deadlock)  -DBROKEN_SEAL_WITHOUT_HOLE
// models: fail(deadlock)  -DBROKEN_COUNT_BEFORE_SEAL

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef ROWS
#define ROWS 3 /* of each sender */
#endif
#ifndef R
#define R 2    /* slots */
#endif
#define CAP 2  /* rows of a segment */
#define ALL (SENDERS * ROWS)

byte cursor; // rows that were taken, with holes
// What each group carries: rows from number `next` on, `carried` of them, taken from `at` on.
byte next[SENDERS], carried[SENDERS], at[SENDERS], last[SENDERS];
bool placing[SENDERS];
bool fresh[SENDERS]; // what was just taken is its own business
// A slot's words.
byte sequence[R];
byte committed[R], hole[R]; // one word: rows and hole together | hole
byte filled[R], content[R], readers[R];
// The lane's words.
bool delivering;
byte published, closed;
byte groups_flushed;
bool heard; // QUIET: the last group's rows were read

byte cell[R * CAP];           // a row's number + 1; 0: free
chan queue = [R] of {byte};   // the receive queue (receive_queue.pml looks inside); full is a bug
bool stands[ALL], seen[ALL];  // in the receive queue; read
byte delivered_next, taken;
byte ended;

// mark_filled and deliver_alone. `i`, `k`: slot and row; `was`: what the exchange found.
inline publish(q) {
    filled[q % R] = q + 1;
#ifdef BROKEN_RESET_AFTER_PUBLISH
    d_step { committed[q % R] = 0; hole[q % R] = 0 }
#endif
    do
    :: d_step { was = delivering; delivering = true }
       if
       :: was -> break
       :: else
       fi;
       do
       :: filled[published % R] == published + 1 ->
          d_step {
              i = published % R;
              assert(published == delivered_next);
              delivered_next++;
              readers[i] = 1;
              k = 0;
              do
              :: k < content[i] -> stands[cell[i * CAP + k] - 1] = true; k++
              :: else -> break
              od;
              k = 0
          }
          assert(nfull(queue));
          queue ! i;
          i = 0;
          published++
       :: else -> break
       od;
       delivering = false;
#ifdef BROKEN_NO_SECOND_LOOK
       break
#else
       if
       :: filled[published % R] == published + 1
       :: else -> break
       fi
#endif
    od;
    was = false
}

// Lane::commit, and publishing when that completes the slot.
inline commit(q, rows, holes) {
    d_step {
        committed[q % R] = committed[q % R] + rows + holes;
        hole[q % R] = hole[q % R] + holes;
        assert(committed[q % R] <= CAP);
        complete = committed[q % R] == CAP;
        if
        :: complete -> content[q % R] = CAP - hole[q % R]
        :: else
        fi
    }
    if
    :: complete ->
#ifndef BROKEN_RESET_AFTER_PUBLISH
       d_step { committed[q % R] = 0; hole[q % R] = 0 }
#endif
       publish(q);
       complete = false
    :: else
    fi
}

// Lane::seal: closes the open slot if there are rows in it, and it is free.
inline seal() {
    do
    :: t = cursor;
       if
       :: t % CAP == 0 -> break
       :: else
       fi;
#ifndef BROKEN_SEAL_OF_A_SLOT_IN_USE
       if
       :: sequence[(t / CAP) % R] != t / CAP -> break
       :: else
       fi;
#endif
       d_step {
           won = cursor == t;
           if
           :: won -> cursor = t + CAP - t % CAP
           :: else
           fi
       }
       if
       :: won ->
#ifndef BROKEN_SEAL_WITHOUT_HOLE
          commit(t / CAP, 0, CAP - t % CAP);
#endif
          break
       :: else
       fi
    od;
    atomic { t = 0; won = false }
}

// Whether the next row that a group carries has a free slot.
#ifdef BROKEN_CLAIM_WITHOUT_LAP
#define FREE(g) true
#else
#define FREE(g) (sequence[(at[g] / CAP) % R] == at[g] / CAP)
#endif

// SendCall::place: writes and commits what a group carries, as far as slots are free.
inline place(g) {
    left = carried[g];
    do
    :: left > 0 && FREE(g) ->
       d_step {
           q = at[g] / CAP;
           n = CAP - at[g] % CAP;
           n = (n < left -> n : left)
       }
       k = 0;
       do
       :: k < n ->
          d_step {
              assert(cell[(q % R) * CAP + (at[g] + k) % CAP] == 0);
              cell[(q % R) * CAP + (at[g] + k) % CAP] = g * ROWS + next[g] + k + 1;
              k++
          }
       :: else -> break
       od;
       atomic {
           k = 0;
           last[g] = q + 1;
           at[g] = at[g] + n;
           next[g] = next[g] + n
       }
       commit(q, n, 0);
       d_step { left = left - n; n = 0; q = 0 }
    :: else -> break
    od;
    // Only now others see how far it got: when nothing is left, the group takes rows anew.
    atomic { carried[g] = left; left = 0 }
}

// SendCall::place_carry.
inline place_carry(g) {
    if
    :: carried[g] > 0 && !fresh[g] ->
#ifdef BROKEN_HELP_WITHOUT_HOLD
       won = true;
#else
       d_step { won = !placing[g]; placing[g] = true }
#endif
       if
       :: won && carried[g] > 0 && !fresh[g] -> place(g)
       :: else
       fi;
       if
       :: won -> atomic { placing[g] = false; won = false }
       :: else
       fi
    :: else
    fi
}

proctype Sender(byte me) {
    byte t, q, n, left, i, k;
    bool won, was, complete, pushed;
    do
    :: carried[me] > 0 ->
#ifdef QUIET
       (me == SENDERS - 1 || heard);
#endif
       // Send returns, and is called again until there is room; or somebody else has placed the rows.
       (carried[me] == 0 || (FREE(me) && !placing[me]));
       place_carry(me)
    :: carried[me] == 0 && next[me] < ROWS ->
       // Lane::take: one group of all its rows, the others of one row after the other.
       d_step {
           n = (me == 0 -> ROWS : 1);
           at[me] = cursor;
           cursor = cursor + n;
           carried[me] = n;
           fresh[me] = true;
           n = 0
       }
       place(me);
       fresh[me] = false
    :: next[me] > 0 && !pushed ->
       pushed = true; // an early push, at any moment; behind the next group's rows
       t = (me + 1) % SENDERS;
       place_carry(t);
       t = 0;
       seal()
    :: carried[me] == 0 && next[me] == ROWS -> break
    od;
#ifdef QUIET
    if
    :: me == SENDERS - 1 ->
       do
       :: t = 0; place_carry(t); seal();
#ifdef BROKEN_PUSH_ONCE
          break
#else
          if
          :: last[me] <= published -> break
          :: else
          fi
#endif
       od;
       k = 0;
       do
       :: k < ROWS -> (seen[me * ROWS + k]); k++
       :: else -> break
       od;
       atomic { k = 0; heard = true }
    :: else
    fi;
#endif
    // Flush: the last group closes the source.
    atomic { groups_flushed++; won = groups_flushed == SENDERS }
    if
    :: won ->
       won = false;
#ifdef BROKEN_COUNT_BEFORE_SEAL
       closed = cursor / CAP + 1;
#endif
       seal();
#ifndef BROKEN_COUNT_BEFORE_SEAL
       closed = (cursor + CAP - 1) / CAP + 1
#endif
    :: else
    fi;
#ifndef BROKEN_DONE_AT_COMMIT
    (last[me] <= published);
#endif
    k = 0;
    do
    :: k < ROWS -> assert(stands[me * ROWS + k]); k++
    :: else -> break
    od;
    ended++
}

proctype Consumer() {
    byte i, k;
    byte kept = R; // a slot that is read and not yet free; R: none
    do
#ifdef QUIET
    :: kept != R -> sequence[kept] = sequence[kept] + R; kept = R
#endif
    :: queue ? i ->
       taken++;
#ifdef BROKEN_FREE_BEFORE_READ
       sequence[i] = sequence[i] + R;
#endif
       do
       :: k < content[i] ->
          d_step {
              assert(cell[i * CAP + k] != 0);
              assert(!seen[cell[i * CAP + k] - 1]);
              seen[cell[i * CAP + k] - 1] = true;
              k++
          }
       :: else -> break
       od;
       // release_reads: clean, then free.
       atomic { readers[i]--; cell[i * CAP] = 0; cell[i * CAP + 1] = 0; k = 0 }
#ifndef BROKEN_FREE_BEFORE_READ
#ifdef QUIET
       if
       :: kept == R -> kept = i
       :: sequence[i] = sequence[i] + R
       fi
#else
       sequence[i] = sequence[i] + R
#endif
#endif
    :: empty(queue) && closed != 0 && taken == closed - 1 -> break
    od;
    atomic {
        k = 0;
        do
        :: k < ALL -> assert(seen[k]); k++
        :: else -> break
        od
    }
    ended++
}

init {
    byte p;
    atomic {
        do
        :: p < R -> sequence[p] = p; p++
        :: else -> break
        od;
        run Consumer();
        p = 0;
        do
        :: p < SENDERS -> run Sender(p); p++
        :: else -> break
        od
    }
}

ltl everything_ends { <> (ended == SENDERS + 1) }
