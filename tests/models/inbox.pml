// The inbox (include/mgi/device/inbox.hpp, receive.hpp): segments of one source come in any order, the groups of a
// destination draw numbers and take the segments that these name, laps included. One Promela step is one atomic
// operation of the code; `drawn` and `open` are one word, and change in one d_step.
//
// Asserted: a segment is read once, as it has come; a group that sees the end finds every segment read. One group may
// leave at any time between its calls. That the end comes is a formula.
//
// models: pass
// models: pass -DSEGMENTS=2 ltl(everything_ends)
// models: fail(assertion) -DBROKEN_END_WITHOUT_OPEN
// models: fail(assertion) -DBROKEN_TWO_WORDS
// models: fail(assertion) -DBROKEN_TAKE_OVER_WITHOUT_CAS
// models: fail(assertion) -DBROKEN_FREE_BEFORE_READ
// models: fail(cycle)     -DBROKEN_NO_TAKE_OVER -DSEGMENTS=3 ltl(everything_ends)
// models: fail(cycle)     -DBROKEN_KEEP_WHAT_NEVER_COMES -DSEGMENTS=2 ltl(everything_ends)

#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef SEGMENTS
#define SEGMENTS 3
#endif
#define R 2       /* slots */
#define SENDERS 2 /* groups of the source: each completes every other segment */

byte sequence[R];   // of a slot: what may be written into it next
byte came[R];       // of a slot: an Arrival, sequence + 1
byte content[R];    // what is written there: its sequence + 1; 0 once read
byte drawn, open;   // Inbox::draws
byte holds[GROUPS]; // Receiver::holds
byte closed;        // senders that have said how many segments there are
bool seen[SEGMENTS];
byte ended;
bool somebody_left;

#define HAS_COME(n) (came[(n) % R] == (n) + 1)
// A number that is held, plus 1, for which there is no segment.
#ifdef BROKEN_KEEP_WHAT_NEVER_COMES
#define NEVER_COMES(held) false
#else
#define NEVER_COMES(held) (closed == SENDERS && (held) > SEGMENTS)
#endif

proctype Sender(byte first) {
    byte s = first;
    bool early;
    // A count is a fact: who sees it need not see the segments.
    if
    :: closed++; early = true
    :: skip
    fi;
    do
    :: s < SEGMENTS ->
       (sequence[s % R] == s);
       assert(content[s % R] == 0);
       content[s % R] = s + 1;
       came[s % R] = s + 1;
       s = s + SENDERS
    :: else -> break
    od;
    if
    :: !early -> closed++
    :: else
    fi
}

// The chunk of a number is ours, and has come.
inline read(n) {
#ifdef BROKEN_FREE_BEFORE_READ
    sequence[n % R] = n + R;
#endif
    d_step {
        assert(n < SEGMENTS && content[n % R] == n + 1 && !seen[n]);
        seen[n] = true
    }
    content[n % R] = 0;
#ifndef BROKEN_FREE_BEFORE_READ
    sequence[n % R] = n + R;
#endif
    got = true
}

// take_from
inline take_from() {
    do
    :: h = holds[me];
       if
       :: h != 0 ->
          if
          :: !HAS_COME(h - 1) -> break
          :: else
          fi;
          d_step {
              won = holds[me] == h;
              if
              :: won -> holds[me] = 0
              :: else
              fi
          }
          if
          :: won -> open--; n = h - 1; read(n); break
          :: else
          fi
       :: else ->
          n = drawn;
          if
          :: HAS_COME(n) ->
#ifdef BROKEN_TWO_WORDS
             d_step { n = drawn; drawn++ }
             open++;
#else
             d_step { n = drawn; drawn++; open++ }
#endif
             if
             :: HAS_COME(n) -> open--; read(n)
             :: else -> holds[me] = n + 1
             fi;
             break
          :: else ->
             if
             :: drawn == n -> break
             :: else
             fi
          fi
       fi
    od;
    atomic { h = 0; won = false; n = 0 }
}

// take_over
inline take_over() {
    g = 0;
    do
    :: g < GROUPS && !got ->
       h = holds[g];
       if
       :: h != 0 && (HAS_COME(h - 1) || NEVER_COMES(h)) ->
#ifdef BROKEN_TAKE_OVER_WITHOUT_CAS
          won = true;
          holds[g] = 0;
#else
          d_step {
              won = holds[g] == h;
              if
              :: won -> holds[g] = 0
              :: else
              fi
          }
#endif
          if
          :: won && NEVER_COMES(h) -> open--
          :: won && !NEVER_COMES(h) -> open--; n = h - 1; read(n)
          :: else
          fi
       :: else
       fi;
       g++
    :: else -> break
    od;
    atomic { g = 0; h = 0; won = false; n = 0 }
}

// at_end
inline at_end() {
    if
    :: closed < SENDERS
    :: else ->
       h = holds[me];
       if
       :: NEVER_COMES(h) ->
          d_step {
              won = holds[me] == h;
              if
              :: won -> holds[me] = 0
              :: else
              fi
          }
          if
          :: won -> open--
          :: else
          fi
       :: else
       fi;
       d_step { n = drawn; h = open }
       if
       :: n < SEGMENTS
#ifdef BROKEN_END_WITHOUT_OPEN
       :: else -> over = true
#else
       :: n >= SEGMENTS -> over = h == 0
#endif
       fi
    fi;
    atomic { h = 0; won = false; n = 0 }
}

proctype Receiver(byte me) {
    byte n, h, g;
    bool won, got, over;
    do
    :: take_from();
       if
       :: got -> got = false
       :: else ->
#ifndef BROKEN_NO_TAKE_OVER
          take_over();
#endif
          if
          :: got -> got = false
          :: else ->
             at_end();
             if
             :: over -> break
             :: else
             fi
          fi
       fi
    :: me == 0 && !somebody_left -> somebody_left = true; goto done
    od;
    // What another group has taken is seen when its call is over: only what was left behind is lost.
    do
    :: n < SEGMENTS ->
       g = 0;
       do
       :: g < GROUPS -> assert(holds[g] != n + 1); g++
       :: else -> break
       od;
       n++
    :: else -> break
    od;
done:
    ended++
}

init {
    byte p;
    atomic {
        do
        :: p < R -> sequence[p] = p; p++
        :: else -> break
        od;
        p = 0;
        do
        :: p < GROUPS -> run Receiver(p); p++
        :: else -> break
        od;
        p = 0;
        do
        :: p < SENDERS -> run Sender(p); p++
        :: else -> break
        od
    }
    (ended == GROUPS);
    d_step {
        p = 0;
        do
        :: p < SEGMENTS -> assert(seen[p]); p++
        :: else -> break
        od
    }
}

ltl everything_ends { <> (ended == GROUPS) }
