// The receive queue (include/mgi/device/receive_queue.hpp), the slots behind it, and `end` by count
// (receive.hpp: at_end). Sources push segments of one or two chunks and refill a slot when it is free;
// takers claim chunks by CAS, read them, and give them back; the last one frees the slot.
//
// Asserted: every chunk is read once, of the segment it was claimed in, while nobody refills it; the
// queue is never full; a taker that saw `end` leaves no chunk unclaimed behind.
//
// models: pass
// models: pass -DPUSHERS=1 -DTAKERS=3 -DSEGMENTS=2
// models: pass -DPUSHERS=1 -DSLOTS=2 -DSEGMENTS=4
// models: pass -DPUSHERS=1 -DSLOTS=2 -DSEGMENTS=3 ltl(everything_ends)
// models: fail(assertion) -DBROKEN_WHAT_AFTER_CLAIM
// models: fail(assertion) -DBROKEN_NO_POSITION
// models: fail(assertion) -DBROKEN_CLAIM_WITHOUT_CAS
// models: fail(assertion) -DBROKEN_FREE_AT_FIRST_RELEASE
// models: fail(assertion) -DBROKEN_END_AT_FIRST_COUNT
// models: fail(assertion) -DBROKEN_END_WHEN_PUSHED
// models: fail(assertion) -DBROKEN_NO_ADVANCE
// models: fail(deadlock)  -DBROKEN_COUNT_LOST
// models: fail(cycle)     -DBROKEN_COUNT_LOST ltl(everything_ends)

#ifndef PUSHERS
#define PUSHERS 2
#endif
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef SEGMENTS
#define SEGMENTS 2 /* of each pusher */
#endif
#ifndef SLOTS
#define SLOTS 1    /* of each pusher */
#endif
#if PUSHERS == 1
#define ALL_COUNTED (count[0] != 0)
#else
#define ALL_COUNTED (count[0] != 0 && count[1] != 0)
#endif
#define N (PUSHERS * SLOTS) /* entries: as many as segments pushed and not freed */
#define ALL (PUSHERS * SEGMENTS)

byte tail, head;
// An entry: the word `state` is position + 1, chunks, claimed; and what.
byte position_of[N], chunks_of[N], claimed_of[N], what_of[N];
// A slot: its segment's number + 1, 0 when free; reads that are owed.
byte segment[PUSHERS * SLOTS], readers[PUSHERS * SLOTS];
byte count[PUSHERS]; // segments of a source, plus 1; 0 while not known
byte claims, pushes; // chunks claimed and pushed, for the assertions only
bool seen[ALL * 2];  // by segment and chunk
byte ended;

proctype Pusher(byte me) {
    byte sent, slot, position, chunks;
    do
    :: sent < SEGMENTS ->
       slot = me * SLOTS + sent % SLOTS;
       (segment[slot] == 0); // the slot is free for this lap
       if
       :: chunks = 1
       :: chunks = 2
       fi;
       atomic { segment[slot] = me * SEGMENTS + sent + 1; readers[slot] = chunks }
       // push
       d_step { position = tail; tail++ }
       d_step {
           // Nobody may still need the entry.
           assert(chunks_of[position % N] == claimed_of[position % N]);
           assert(position < head + N);
           what_of[position % N] = slot;
           position_of[position % N] = position + 1;
           chunks_of[position % N] = chunks;
           claimed_of[position % N] = 0;
           pushes = pushes + chunks
       }
       atomic { sent++; position = 0; slot = 0; chunks = 0 }
    :: else -> break
    od;
#ifndef BROKEN_COUNT_LOST
    count[me] = sent + 1;
#endif
    ended++
}

// ReceiveQueue::advance
inline advance(at) {
    d_step {
        if
        :: head == at -> head = at + 1
        :: else
        fi
    }
}

// The claims are all made: what `end` promises.
inline nothing_left() {
    d_step {
        i = 0;
        do
        :: i < PUSHERS -> assert(count[i] != 0); i++
        :: else -> break
        od;
        assert(pushes == claims && tail == pushed)
    }
}

proctype Taker() {
    byte position, chunks, next, slot, expected, pushed, i, number;
    bool won;
    do
    :: // Until something is there or all is over; a poll that finds nothing changes nothing.
       (position_of[head % N] == head + 1 || ALL_COUNTED);
       // take
       position = head;
       d_step {
           won = position_of[position % N] == position + 1;
           chunks = chunks_of[position % N];
           next = claimed_of[position % N]
       }
       if
       :: !won ->
          if
          :: head != position -> goto again
          :: else
          fi;
          goto look_for_end
       :: else
       fi;
       if
       :: next == chunks ->
#ifndef BROKEN_NO_ADVANCE
          advance(position); // for who claimed the last chunk and sleeps
#endif
          goto again
       :: else
       fi;
#ifndef BROKEN_WHAT_AFTER_CLAIM
       slot = what_of[position % N];
#endif
       d_step {
#ifdef BROKEN_NO_POSITION
           won = chunks_of[position % N] == chunks && claimed_of[position % N] == next;
#else
           won = position_of[position % N] == position + 1 && claimed_of[position % N] == next;
#endif
#ifdef BROKEN_CLAIM_WITHOUT_CAS
           won = true;
#endif
           if
           :: won -> claimed_of[position % N] = next + 1; claims++
           :: else
           fi
       }
       if
       :: !won -> goto again
       :: else
       fi;
#ifndef BROKEN_NO_ADVANCE
       if
       :: next + 1 == chunks -> advance(position)
       :: else
       fi;
#endif
#ifdef BROKEN_WHAT_AFTER_CLAIM
       slot = what_of[position % N];
#endif
       // Reads the chunk in place.
       d_step {
           number = segment[slot];
           assert(number != 0);
           assert(!seen[(number - 1) * 2 + next]);
           seen[(number - 1) * 2 + next] = true
       }
       assert(segment[slot] == number);
       // release_reads
       d_step { readers[slot]--; won = readers[slot] == 0 }
#ifdef BROKEN_FREE_AT_FIRST_RELEASE
       won = true;
#endif
       if
       :: won -> segment[slot] = 0
       :: else
       fi;
       goto again;
       look_for_end:
       expected = 0;
       pushed = 0;
       i = 0;
       do
       :: i < PUSHERS ->
          if
          :: count[i] != 0 -> expected = expected + count[i] - 1
#ifdef BROKEN_END_AT_FIRST_COUNT
          :: else -> skip
#else
          :: else -> goto again
#endif
          fi;
          i++
       :: else -> break
       od;
       pushed = expected;
#ifdef BROKEN_END_WHEN_PUSHED
       if
       :: tail == expected -> break
       :: else
       fi;
#else
       if
       :: head == expected -> break
       :: else
       fi;
#endif
       again: atomic { position = 0; chunks = 0; next = 0; slot = 0; won = false; number = 0; i = 0 }
    od;
    nothing_left();
    ended++
}

init {
    byte p;
    atomic {
        do
        :: p < PUSHERS -> run Pusher(p); p++
        :: else -> break
        od;
        p = 0;
        do
        :: p < TAKERS -> run Taker(); p++
        :: else -> break
        od
    }
}

ltl everything_ends { <> (ended == PUSHERS + TAKERS) }
