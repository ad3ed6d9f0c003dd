// Resend after the death of a NIC (designed, not yet built). A source writes segments into the target
// segments of a receive pool over PATHS paths; a transfer is keyed by its sequence here, by (channel,
// source, destination, sequence) in a real one, and kept until it is acknowledged. Path 0 may die at
// any moment, with writes under way that are lost or land late, and acknowledgements that are lost.
//
//     close       the receiver closes the dead connection: nothing of it lands from now on
//     report      then it says, over a healthy path, what has arrived
//     resend      the source sends the rest again by another path, into the same target
//     quarantine  a target is written for its next sequence only when the credit is back and no
//                 transfer into it is under way: acknowledged, or its connection closed
//     duplicates  an arrival that was still to be handled when the report was made comes twice: dropped
//
// Asserted: what is read is whole and the right segment's, also while it is read; every segment is
// delivered once. A segment that never comes is an invalid end state.
//
// models: pass
// models: pass -DSEGMENTS=4 -DPATHS=2
// models: pass ltl(everything_arrives)
// models: fail(assertion) -DBROKEN_NO_CLOSE
// models: fail(assertion) -DBROKEN_NO_QUARANTINE
// models: fail(assertion) -DBROKEN_ACK_BEFORE_FINAL
// models: fail(assertion) -DBROKEN_KEEP_DUPLICATES
// models: fail(deadlock)  -DBROKEN_FORGET_AFTER_SEND
// models: fail(deadlock)  -DBROKEN_REPORT_WITHOUT_RESEND

#ifndef PATHS
#define PATHS 3
#endif
#ifndef SEGMENTS
#define SEGMENTS 3
#endif
#define POOL 2 /* target segments; sequence q goes to q % POOL */

chan wire0 = [SEGMENTS] of {byte};      // writes under way, by path, in their order
chan wire1 = [SEGMENTS] of {byte};
chan wire2 = [SEGMENTS] of {byte};
chan arrivals = [2 * SEGMENTS] of {byte, byte}; // sequence, path: not yet handled by the receiver
byte low[POOL], high[POOL];             // a target's data, written in two parts: sequence + 1
bool dead, closed;                      // path 0
byte flying[SEGMENTS];                  // the source's transfers under way: path + 1
bool arrived[SEGMENTS];                 // the receiver's keys
bool reported, known[SEGMENTS];         // the report, as it was when it was made
byte deliveries[SEGMENTS];
byte released;                          // credits: targets given back, in sequence
bool finished;

inline write(path) {
    if
    :: path == 0 -> wire0 ! q
    :: path == 1 -> wire1 ! q
    :: path == 2 -> wire2 ! q
    fi;
    flying[q] = path + 1
}

// Any healthy path.
inline choose(path) {
    if
    :: !handled -> path = 0
    :: path = 1
#if PATHS == 3
    :: path = 2
#endif
    fi
}

#ifdef BROKEN_NO_QUARANTINE
#define TARGET_QUIET(q) true
#else
#define TARGET_QUIET(q) (q < POOL || flying[q - POOL] == 0)
#endif

proctype Source() {
    byte next, q, path;
    bool handled; // the death of path 0
    do
    :: atomic {
           next < SEGMENTS && next < released + POOL && TARGET_QUIET(next) ->
           choose(path);
           q = next;
           write(path);
#ifdef BROKEN_FORGET_AFTER_SEND
           flying[q] = 0;
#endif
           next++;
           q = 0;
           path = 0
       }
    :: atomic {
           reported && !handled ->
           handled = true;
           q = 0;
           do
           :: q < next ->
              if
              :: flying[q] == 1 && known[q] -> flying[q] = 0
              :: flying[q] == 1 && !known[q] ->
#ifdef BROKEN_REPORT_WITHOUT_RESEND
                 flying[q] = 0
#else
                 choose(path);
                 write(path)
#endif
              :: else
              fi;
              q++
           :: else -> break
           od;
           q = 0;
           path = 0
       }
    :: finished -> break
    od
}

// The network: a path lands its writes in their order, each in two parts, and says so.
inline land(wire, path) {
    wire ? q;
    if
    :: atomic {
           !(path == 0 && closed) ->
           low[q % POOL] = q + 1;
#ifdef BROKEN_ACK_BEFORE_FINAL
           arrivals ! q, path
#endif
       }
       if
       :: atomic {
              !(path == 0 && closed) ->
              high[q % POOL] = q + 1;
#ifndef BROKEN_ACK_BEFORE_FINAL
              arrivals ! q, path
#endif
          }
       :: path == 0 && (closed || dead) -> skip // lost half-way
       fi
    :: path == 0 && (closed || dead) -> skip // lost
    fi;
    q = 0
}

proctype Path(byte path) {
    byte q;
end:
    do
    :: path == 0 && len(wire0) > 0 -> land(wire0, 0)
    :: path == 1 && len(wire1) > 0 -> land(wire1, 1)
    :: path == 2 && len(wire2) > 0 -> land(wire2, 2)
    od
}

// At any moment, or never.
proctype Death() {
    if
    :: dead = true
    :: skip
    fi
}

proctype Receiver() {
    byte q, path;
end:
    do
    :: atomic {
           arrivals ? q, path ->
#ifdef BROKEN_KEEP_DUPLICATES
           deliveries[q]++;
#else
           if
           :: !arrived[q] -> deliveries[q]++
           :: else
           fi;
#endif
           arrived[q] = true;
           assert(deliveries[q] == 1);
           // The acknowledgement; one of a dead path may be lost, and one of a transfer that was sent
           // again by another path is not for that one.
           if
           :: flying[q] == path + 1 -> flying[q] = 0
           :: path == 0 && dead -> skip
           :: flying[q] != path + 1 -> skip
           fi;
           q = 0;
           path = 0
       }
    :: dead && !reported ->
#ifndef BROKEN_NO_CLOSE
       closed = true;
#endif
       atomic {
           q = 0;
           do
           :: q < SEGMENTS -> known[q] = arrived[q]; q++
           :: else -> break
           od;
           q = 0;
           reported = true
       }
    od
}

proctype Consumer() {
    byte next;
    do
    :: next < SEGMENTS ->
       (deliveries[next] > 0);
       assert(low[next % POOL] == next + 1);
       assert(high[next % POOL] == next + 1);
       assert(low[next % POOL] == next + 1);
       next++;
       released = next
    :: else -> break
    od;
    finished = true
}

init {
    atomic {
        run Source();
        run Path(0);
        run Path(1);
#if PATHS == 3
        run Path(2);
#endif
        run Death();
        run Receiver();
        run Consumer()
    }
}

ltl everything_arrives { <> finished }
