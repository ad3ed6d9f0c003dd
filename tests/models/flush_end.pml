// The loop of the paper's Figure 3 with flush and `end`, at the smallest legal size: endpoints that
// send and receive on one channel, lanes of R slots of CAP rows (lane.pml and receive_queue.pml look
// inside a lane and a queue; here their operations are single steps). Endpoint 0 has two groups, the
// second of which last for the first one's `done` before it sends: a flush may not wait for groups
// that go on (send.hpp: SendCall::flush).
//
// Asserted: `done` only when the group's rows stand in the receive queues; `end` only when every row
// was taken; none is left anywhere when all have ended. A wait in a circle is an invalid end state.
//
// models: pass -DROWS=3 -DCAP=3
// models: pass -DROWS=2 -DCAP=2
// models: pass -DROWS=2 -DCAP=1
// models: pass -DROWS=1 -DCAP=2 -DINDEPENDENT
// models: pass -DROWS=2 -DCAP=2 ltl(everything_ends)
// models: fail(deadlock)  -DROWS=3 -DCAP=2 -DBROKEN_NO_SEAL_WHILE_PENDING
// models: fail(deadlock)  -DROWS=3 -DCAP=2 -DBROKEN_FIRST_GROUP_CLOSES
// models: fail(deadlock)  -DROWS=3 -DCAP=2 -DBROKEN_COUNT_WITHOUT_SEAL
// models: fail(assertion) -DROWS=3 -DCAP=2 -DBROKEN_DONE_WITHOUT_CARRY
// models: fail(deadlock)  -DROWS=3 -DCAP=1 -DBROKEN_SEND_WITHOUT_RECEIVING

#define ENDPOINTS 2
#define GROUPS 3 /* 0 and 1 at endpoint 0, 2 at endpoint 1 */
#define R 2
// CAP: rows of a segment; ROWS: of each group
#define AT(g) ((g) / 2)                    /* a group's endpoint */
#define LANE(s, d) ((s) * ENDPOINTS + (d))
#define LANES (ENDPOINTS * ENDPOINTS)

byte open[LANES];        // rows in the open slot
byte used[LANES];        // slots published and not yet freed
byte sequence[LANES];    // of the open slot
byte count[LANES];       // segments from s to d, plus 1; 0 while not known
byte flushed[ENDPOINTS]; // groups of a source
byte taken[ENDPOINTS];
chan queue0 = [LANES * R] of {byte, byte}; // lane, rows
chan queue1 = [LANES * R] of {byte, byte};
byte sent[ENDPOINTS], received[ENDPOINTS]; // rows, by destination
byte waiting[LANES];                       // rows in carry buffers
byte unpublished[GROUPS * ENDPOINTS];      // rows in open slots, by group and destination
bool flush_done[GROUPS];
byte ended;

inline publish(l) {
    if
    :: l % ENDPOINTS == 0 -> queue0 ! l, open[l]
    :: else -> queue1 ! l, open[l]
    fi;
    used[l]++;
    sequence[l]++;
    open[l] = 0;
    if
    :: l < ENDPOINTS -> unpublished[l] = 0; unpublished[ENDPOINTS + l] = 0
    :: else -> unpublished[ENDPOINTS + l] = 0
    fi
}

// Publishes what is in the open slots of source s.
inline seal_lanes(s) {
    atomic {
        if
        :: open[LANE(s, 0)] != 0 -> publish(LANE(s, 0))
        :: else
        fi;
        if
        :: open[LANE(s, 1)] != 0 -> publish(LANE(s, 1))
        :: else
        fi
    }
}

// recv of one segment at endpoint e, if one is there, and its release.
inline receive(e) {
    if
    :: atomic { e == 0 && len(queue0) > 0 -> queue0 ? from, rows }; got = true
    :: atomic { e == 1 && len(queue1) > 0 -> queue1 ? from, rows }; got = true
    :: else
    fi;
    if
    :: got ->
       atomic { taken[e]++; received[e] = received[e] + rows }
       atomic { used[from]--; got = false; from = 0; rows = 0 }
    :: else
    fi
}

#define HAS(e) ((e) == 0 && len(queue0) > 0 || (e) == 1 && len(queue1) > 0)
#define ROOM(l) (used[l] < R)
#define ENDED(e)                                                        \
    (count[LANE(0, e)] != 0 && count[LANE(1, e)] != 0 &&                \
     taken[e] == count[LANE(0, e)] - 1 + count[LANE(1, e)] - 1)

proctype Group(byte me) {
    byte left = ROWS, lane, from, rows, last0, last1;
    bool carry, got, last;
#ifndef INDEPENDENT
    // The user's second group last for something that follows from the first one's `done`.
    do
    :: me != 1 || flush_done[0] -> break
    :: me == 1 && !flush_done[0] && HAS(0) -> receive(AT(me))
    od;
#endif
    do
    :: left > 0 ->
       // send: a row to either destination; without room it waits in the carry buffer.
       if
       :: lane = LANE(AT(me), 0)
       :: lane = LANE(AT(me), 1)
       fi;
       atomic { left--; carry = true; waiting[lane]++; sent[lane % ENDPOINTS]++ }
       place:
       if
       :: atomic {
              ROOM(lane) ->
              waiting[lane]--;
              open[lane]++;
              unpublished[me * ENDPOINTS + lane % ENDPOINTS]++;
              if
              :: lane % ENDPOINTS == 0 -> last0 = sequence[lane] + 1
              :: else -> last1 = sequence[lane] + 1
              fi;
              if
              :: open[lane] == CAP -> publish(lane)
              :: else
              fi;
              carry = false
          }
       :: else ->
#ifdef BROKEN_DONE_WITHOUT_CARRY
          if
          :: left == 0 -> break
          :: else
          fi;
#endif
          // Figure 3: receive while send has no room; and push, so that nobody last for our rows.
          seal_lanes(AT(me));
#ifdef BROKEN_SEND_WITHOUT_RECEIVING
          (ROOM(lane));
#else
          (ROOM(lane) || HAS(AT(me)));
          receive(AT(me));
#endif
          goto place
       fi
#ifndef BROKEN_SEND_WITHOUT_RECEIVING
    :: left > 0 && HAS(AT(me)) -> receive(AT(me))
#endif
    :: left == 0 -> break
    od;
    // flush
    atomic {
        flushed[AT(me)]++;
#ifdef BROKEN_FIRST_GROUP_CLOSES
        last = flushed[AT(me)] == 1;
#else
        last = flushed[AT(me)] == 2 - AT(me);
#endif
        if
        :: last ->
#ifndef BROKEN_COUNT_WITHOUT_SEAL
           seal_lanes(AT(me));
#endif
           count[LANE(AT(me), 0)] = sequence[LANE(AT(me), 0)] + 1;
           count[LANE(AT(me), 1)] = sequence[LANE(AT(me), 1)] + 1
        :: else
        fi;
        last = false
    }
    do
    :: last0 <= sequence[LANE(AT(me), 0)] && last1 <= sequence[LANE(AT(me), 1)] -> break
    :: else ->
#ifndef BROKEN_NO_SEAL_WHILE_PENDING
       seal_lanes(AT(me));
#endif
       (HAS(AT(me)) || last0 <= sequence[LANE(AT(me), 0)] && last1 <= sequence[LANE(AT(me), 1)]);
       receive(AT(me))
    od;
    assert(!carry && unpublished[me * ENDPOINTS] == 0 && unpublished[me * ENDPOINTS + 1] == 0);
    flush_done[me] = true;
    // recv until end
    do
    :: HAS(AT(me)) -> receive(AT(me))
    :: ENDED(AT(me)) -> break
    od;
    assert(sent[AT(me)] == received[AT(me)]);
    assert(waiting[LANE(0, AT(me))] == 0 && waiting[LANE(1, AT(me))] == 0);
    assert(open[LANE(0, AT(me))] == 0 && open[LANE(1, AT(me))] == 0);
    assert(!HAS(AT(me)));
    ended++
}

init {
    atomic { run Group(0); run Group(1); run Group(2) }
}

ltl everything_ends { <> (ended == GROUPS) }
