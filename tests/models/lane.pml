// The lane (include/mgi/device/lane.hpp, delivery.hpp): several groups fill the segments of one lane,
// a consumer reads them in place and frees the slots, laps included. One Promela step is one atomic
// operation of the code; words that one CAS or fetch_add changes together change in one d_step.
//
// Asserted: a row is written into a free place, read as it was written, once; segments are delivered
// in sequence; flush is `done` only when the group's rows were handed to the receive queue; at the
// end nothing is missing. A wait for something that never comes is an invalid end state.
//
// A row that does not fit what is left of a slot closes it, as an early push does: `push` is both. Of a
// lane with long strings claims are CAS in place of additions: the same steps, none of them void.
//
// models: pass
// models: pass -DSENDERS=3 -DROWS=2
// models: pass -DROWS=2 ltl(everything_ends)
// models: fail(assertion) -DBROKEN_OPEN_WITHOUT_LAP
// models: fail(deadlock)  -DBROKEN_OPEN_KEEPS_VOID_ROWS
// models: fail(assertion) -DBROKEN_FREE_BEFORE_READ
// models: fail(assertion) -DBROKEN_RESET_AFTER_PUBLISH
// models: fail(assertion) -DBROKEN_DONE_AT_COMMIT
// models: fail(deadlock)  -DBROKEN_NO_SECOND_LOOK
// models: fail(deadlock)  -DBROKEN_SEAL_WITHOUT_HOLE
// models: fail(deadlock)  -DBROKEN_COUNT_BEFORE_SEAL

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef ROWS
#define ROWS 3 /* of each sender */
#endif
#define R 2    /* slots */
#define CAP 2  /* rows of a segment */
#define ALL (SENDERS * ROWS)

// The ticket: the slot is closed when as many rows as it holds were taken, or more.
byte ticket_seq, ticket_rows;
// A slot's words.
byte sequence[R];
byte committed[R], hole[R]; // one word: rows and hole together | hole
byte filled[R], content[R], readers[R];
// The lane's words.
bool delivering;
byte published, closed;
byte groups_flushed;

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

// Lane::open_next: of the closed ticket t_seq, t_rows. `won`: that there may be room.
inline open_next() {
#ifdef BROKEN_OPEN_WITHOUT_LAP
    won = true;
#else
    won = sequence[(t_seq + 1) % R] == t_seq + 1;
#endif
    if
    :: won ->
       d_step {
           if
           :: ticket_seq == t_seq && ticket_rows == t_rows ->
              ticket_seq = t_seq + 1;
#ifdef BROKEN_OPEN_KEEPS_VOID_ROWS
              ticket_rows = ticket_rows - CAP
#else
              ticket_rows = 0
#endif
           :: else
           fi
       }
    :: else
    fi
}

// Lane::seal: closes the open slot if there are rows in it.
inline seal() {
    do
    :: d_step { t_seq = ticket_seq; t_rows = ticket_rows }
       if
       :: t_rows == 0 || t_rows >= CAP -> break
       :: else
       fi;
       d_step {
           won = ticket_seq == t_seq && ticket_rows == t_rows;
           if
           :: won -> ticket_rows = CAP
           :: else
           fi
       }
       if
       :: won ->
#ifndef BROKEN_SEAL_WITHOUT_HOLE
          commit(t_seq, 0, CAP - t_rows);
#endif
          break
       :: else
       fi
    od;
    atomic { t_seq = 0; t_rows = 0; won = false }
}

proctype Sender(byte me) {
    byte next, t_seq, t_rows, n, i, k, last;
    bool won, was, complete, pushed;
    do
    :: next < ROWS ->
       // Lane::claim of as many rows as fit.
       d_step { t_seq = ticket_seq; t_rows = ticket_rows }
       if
       :: t_rows >= CAP ->
          open_next();
          if
          :: !won ->
             // No room: send returns, and is called again until there is.
             (ticket_rows < CAP || sequence[(ticket_seq + 1) % R] == ticket_seq + 1)
          :: else
          fi;
          goto again
       :: else
       fi;
       d_step {
           t_seq = ticket_seq;
           t_rows = ticket_rows;
           ticket_rows = ticket_rows + ROWS - next;
           n = (CAP - t_rows < ROWS - next -> CAP - t_rows : ROWS - next);
           if
           :: t_rows >= CAP -> n = 0 // closed since: nothing was added
           :: else
           fi
       }
       if
       :: n > 0 ->
          k = 0;
          do
          :: k < n ->
             d_step {
                 assert(cell[(t_seq % R) * CAP + t_rows + k] == 0);
                 cell[(t_seq % R) * CAP + t_rows + k] = me * ROWS + next + 1;
                 next++;
                 k++
             }
          :: else -> break
          od;
          atomic { last = t_seq + 1; k = 0; won = false; t_rows = 0 }
          commit(t_seq, n, 0);
          n = 0
       :: else
       fi;
       again: atomic { t_seq = 0; t_rows = 0; won = false }
    :: next < ROWS && next > 0 && !pushed ->
       pushed = true; // an early push, at any moment
       seal()
    :: next == ROWS -> break
    od;
    // Flush: the last group closes the source.
    atomic { groups_flushed++; won = groups_flushed == SENDERS }
    if
    :: won ->
#ifdef BROKEN_COUNT_BEFORE_SEAL
       closed = ticket_seq + 1;
#endif
       seal();
#ifndef BROKEN_COUNT_BEFORE_SEAL
       closed = ticket_seq + (ticket_rows == 0 -> 0 : 1) + 1
#endif
    :: else
    fi;
#ifndef BROKEN_DONE_AT_COMMIT
    (last <= published);
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
    do
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
       sequence[i] = sequence[i] + R
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
