// By copy (src/mover/route.cpp, channel_moves.cpp): a source fills the slots of its lane; the mover
// starts a copy when the destination's next segment is free (the credit), the transport completes
// copies in any order, the mover pushes in sequence, gives the source's slot back and moves the
// `delivered` watermark; behind the last one it says the count. Consumers release in any order. With
// READERS the lane is a broadcast's: one destination reads each segment in place, from its publishing on,
// and the last of that reader and the mover frees the slot.
//
// Asserted: no copy reads a slot that is refilled or writes a segment that is read; segments arrive
// once, whole and in sequence; flush is `done` only when they stand in the receive queue; `end` only
// after the last one.
//
// models: pass
// models: pass -DCREDITS=1 -DSEGMENTS=4
// models: pass -DR=3 -DCREDITS=3
// models: pass -DREADERS=1 -DSEGMENTS=4
// models: pass -DREADERS=1 -DSEGMENTS=4 ltl(everything_ends)
// models: pass ltl(everything_ends)
// models: fail(assertion) -DBROKEN_COPY_WITHOUT_CREDIT
// models: fail(assertion) -DBROKEN_FREE_AT_SUBMIT
// models: fail(assertion) -DBROKEN_PUSH_AT_COMPLETION
// models: fail(assertion) -DBROKEN_DELIVERED_AT_START
// models: fail(assertion) -DBROKEN_COUNT_AT_CLOSE
// models: fail(assertion) -DREADERS=1 -DSEGMENTS=4 -DBROKEN_FIRST_FREES
// models: fail(deadlock)  -DBROKEN_CREDIT_LOST

#ifndef R
#define R 2        /* slots of the lane */
#endif
#ifndef CREDITS
#define CREDITS 2  /* segments of the receive pool for this source */
#endif
#ifndef SEGMENTS
#define SEGMENTS 5
#endif
#ifndef READERS
#define READERS 0  /* destinations that read in place; 0 or 1 */
#endif
#define CONSUMERS 2
#define ENDS (CONSUMERS + READERS + 1)
#ifdef BROKEN_COPY_WITHOUT_CREDIT
#define CREDIT true
#else
#define CREDIT (ring_sequence[sent % CREDITS] == sent)
#endif

byte lane_sequence[R], lane_data[R];       // the source's slots; data: segment's number + 1
byte owed[R];                              // and their reads that are still owed
byte ring_sequence[CREDITS];               // the receive pool's segments
byte ring_low[CREDITS], ring_high[CREDITS]; // their data, which a copy writes in two parts
byte published, delivered, closed;
byte flying[R];   // copies under way: segment's number + 1, by its slot in the lane
byte target[R];   // and where to
bool complete[R]; // the transport said so
chan queue = [CREDITS] of {byte};
chan near = [R] of {byte};  // the queue of who reads in place
byte count, taken, released;
bool stands[SEGMENTS], seen[SEGMENTS];
byte ended;

inline give_back(slot, last) {
    atomic { owed[slot]--; last = owed[slot] == 0 }
#ifdef BROKEN_FIRST_FREES
    last = owed[slot] == READERS;
#endif
    if
    :: last -> lane_sequence[slot] = lane_sequence[slot] + R
    :: else
    fi;
    last = false
}

proctype Source() {
    byte next;
    do
    :: next < SEGMENTS ->
       (lane_sequence[next % R] == next);
       assert(flying[next % R] == 0);
       lane_data[next % R] = next + 1;
       owed[next % R] = READERS + 1;
#if READERS
       near ! next % R;
#endif
       next++;
       published = next
    :: else -> break
    od;
    closed = next + 1;
    // flush
    (delivered == next);
    next = 0;
    do
    :: next < SEGMENTS -> assert(stands[next]); next++
    :: else -> break
    od;
    ended++
}

inline copy() {
    ring_low[target[i]] = lane_data[i];
    ring_high[target[i]] = lane_data[i];
    complete[i] = true
}

// Copies whatever is under way, in any order, low part first.
proctype Transport() {
    byte i;
    do
    :: flying[0] != 0 && !complete[0] -> i = 0; copy()
    :: flying[1] != 0 && !complete[1] -> i = 1; copy()
#if R == 3
    :: flying[2] != 0 && !complete[2] -> i = 2; copy()
#endif
    :: ended >= ENDS -> break
    od
}

proctype Mover() {
    byte sent, arrived, i;
    bool last;
    do
    :: // Route::start
       sent < published && CREDIT && flying[sent % R] == 0 ->
       atomic {
           target[sent % R] = sent % CREDITS;
           complete[sent % R] = false;
           flying[sent % R] = sent + 1
       }
       sent++;
#ifdef BROKEN_FREE_AT_SUBMIT
       lane_sequence[(sent - 1) % R] = sent - 1 + R;
#endif
#ifdef BROKEN_DELIVERED_AT_START
       delivered = sent;
#endif
    :: // Route::finish
#ifdef BROKEN_PUSH_AT_COMPLETION
       arrived < sent && (complete[0] || complete[R - 1]) ->
       i = (complete[0] -> 0 : R - 1);
#else
       arrived < sent && complete[arrived % R] ->
       i = arrived % R;
#endif
       assert(nfull(queue));
       atomic {
           stands[arrived] = true;
           queue ! target[i]
       }
       atomic { flying[i] = 0; complete[i] = false }
#ifndef BROKEN_FREE_AT_SUBMIT
       give_back(i, last);
#endif
       arrived++;
#ifndef BROKEN_DELIVERED_AT_START
       delivered = arrived;
#endif
       i = 0
    :: // close
#ifdef BROKEN_COUNT_AT_CLOSE
       closed != 0 -> count = arrived + 1; break
#else
       closed != 0 && arrived == closed - 1 -> count = arrived + 1; break
#endif
    od
}

proctype Consumer() {
    byte i, number;
    do
    :: atomic {
           queue ? i ->
           number = ring_low[i];
           assert(number == taken + 1); // in sequence
           assert(!seen[number - 1]);
           seen[number - 1] = true;
           taken++
       }
       assert(ring_low[i] == number);
       assert(ring_high[i] == number);
#ifdef BROKEN_CREDIT_LOST
       if
       :: number != 1 -> ring_sequence[i] = ring_sequence[i] + CREDITS
       :: else
       fi;
#else
       ring_sequence[i] = ring_sequence[i] + CREDITS;
#endif
       atomic { i = 0; number = 0; released++ }
    :: count != 0 && taken == count - 1 -> break
    od;
    assert(taken == SEGMENTS);
    ended++
}

#if READERS
proctype Reader() {
    byte i, number;
    bool last;
    do
    :: near ? i ->
       number++;
       assert(lane_data[i] == number);
       assert(lane_data[i] == number); // as long as it reads
       give_back(i, last)
    :: closed != 0 && number == closed - 1 -> break
    od;
    assert(number == SEGMENTS);
    ended++
}
#endif

init {
    byte p;
    atomic {
        do
        :: p < R -> lane_sequence[p] = p; p++
        :: else -> break
        od;
        p = 0;
        do
        :: p < CREDITS -> ring_sequence[p] = p; p++
        :: else -> break
        od;
        run Source();
        run Transport();
        run Mover();
#if READERS
        run Reader();
#endif
        p = 0;
        do
        :: p < CONSUMERS -> run Consumer(); p++
        :: else -> break
        od
    }
}

ltl everything_ends { <> (ended == ENDS) }
