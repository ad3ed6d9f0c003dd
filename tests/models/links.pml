// Credits over a link (src/mover: far_route.hpp, far_flow.hpp, intake.hpp, channel_links.cpp, link/):
// a source on the near server, a receive ring of W places on the far one, wires between them.
//
//     start     the near mover starts sequence n when a credit word above n has come and less than W
//               are on their way, counted in turn: so n - W was acknowledged (quarantine)
//     take in   the far link asks for n's place, n % W, before its first byte lands; when n is whole
//               it has arrived, and is pushed when all below it have
//     credit    consumers free places in any order; how far they are free in turn is a word
//     words     only the latest value of each is kept, until the other end has that one; said again
//               when its wire has died: so one may come twice, or behind a newer one
//     death     an end closes the wire at any moment, half-way in a segment as well; what it had
//               written may still be read. Who closes says so (report) over another wire; who hears
//               that closes, and reports, too. Segments go again when the far end's report is there
//     end       how many were acknowledged, when that is all; then farewell; who is settled ends the
//               link
//
// A wire's frames lie where they are: written and not read whole, or read and not known to be, each
// way. So a report needs no number: nothing moves any more on a wire that the far end has closed. An
// acknowledgement comes at any time, frame by frame, in their order.
//
// Asserted: never more than W segments on their way or not given back; nothing lands where somebody
// may read, or beside another wire's write; wires read what the source has not had back; each segment
// arrives once, in sequence; `end` when all were taken; the link ends for nobody who needs it. A
// credit, segment or end that never comes is an invalid end state: init waits for all of it, and each
// step moves something on.
//
// models: pass -DSEGMENTS=4
// models: pass -DW=1 -DSEGMENTS=3 -DSHORT_REPORT
// models: pass -DQUARTER=2 -DHOLDING -DSHORT_REPORT
// models: pass -DSEGMENTS=2 -DFAREWELLS
// models: pass -DW=1 -DSEGMENTS=1 -DDEATHS=2
// models: pass -DW=1 -DSEGMENTS=2 ltl(everything_ends)
// models: fail(assertion) -DSEGMENTS=4 -DBROKEN_CREDITS_ADDED
// models: fail(deadlock)  -DSEGMENTS=4 -DBROKEN_CREDIT_HEARD_LAST
// models: fail(assertion) -DBROKEN_CREDIT_OUT_OF_TURN
// models: fail(deadlock)  -DQUARTER=2 -DHOLDING -DBROKEN_CREDIT_NEVER_SINGLE
// models: fail(deadlock)  -DBROKEN_NO_QUARANTINE
// models: fail(assertion) -DBROKEN_RESEND_BEFORE_REPORT
// models: fail(assertion) -DBROKEN_REPORT_WITHOUT_CLOSING
// models: fail(deadlock)  -DBROKEN_REPORT_NOT_ANSWERED
// models: fail(deadlock)  -DW=1 -DSEGMENTS=1 -DDEATHS=2 -DBROKEN_REPORT_SAID_ONCE
// models: fail(assertion) -DSHORT_REPORT -DBROKEN_KEEP_DUPLICATES
// models: fail(assertion) -DBROKEN_FREE_AT_WRITE
// models: fail(deadlock)  -DBROKEN_HALF_HAS_ARRIVED
// models: fail(assertion) -DBROKEN_PUSH_AT_ARRIVAL
// models: fail(deadlock)  -DBROKEN_WORDS_LOST
// models: fail(deadlock)  -DW=1 -DBROKEN_OLD_WORD_FORGETS_NEW
// models: fail(assertion) -DBROKEN_END_AT_CLOSE
// models: fail(assertion) -DBROKEN_END_WHEN_HEARD
// models: fail(assertion) -DW=1 -DSEGMENTS=1 -DFAREWELLS -DBROKEN_LEAVE_UNSETTLED

#ifndef W
#define W 2        /* places of the receive ring: credits */
#endif
#ifndef SEGMENTS
#define SEGMENTS 3
#endif
#ifndef DEATHS
#define DEATHS 1   /* of wires 0 and, with 2, 1; the last one lives, with 2 in wire 0's place */
#endif
#ifndef QUARTER
#define QUARTER 1  /* so many new credits are worth a word */
#endif
#define WIRES (DEATHS + 1)
#define LAST DEATHS
#define DEEP 8

// A frame is a kind and, below it, a value. A segment's kind is 0, its value its sequence.
#define KIND(f) ((f) / 16)
#define VALUE(f) ((f) % 16)
#define FRAME(kind, value) ((kind) * 16 + (value))
#define FACT 1     /* near: how many segments there were, plus 1; far: credits */
#define FAREWELL 2
#define REPORT 3   /* REPORT + w: wire w is closed here */
#define KINDS (REPORT + DEATHS)

// Wires.
chan out[WIRES] = [DEEP] of {byte};      // to the far end: written, not read
chan had[WIRES] = [DEEP] of {byte};      // read, not known to be
chan back[WIRES] = [DEEP] of {byte};     // to the near end, likewise
chan had_back[WIRES] = [DEEP] of {byte};
bool near_open[WIRES], far_open[WIRES];
bool sees[WIRES];                        // by itself, who has not closed it, that the other end has

// What the ends have to say: values, 0 when the other end has it, and whether they wait for a wire.
#define NEAR 0
#define FAR 1
typedef Book {
    byte value[KINDS];
    bool waits[KINDS]
};
Book book[2];

// The near server.
byte allowed = W;               // the latest credit
byte sent, arrived;             // started; acknowledged in turn, and given back to the source
#ifdef BROKEN_FREE_AT_WRITE
byte written;                   // all below were on a wire
#endif
byte acknowledged[W];           // by place: a sequence that is, plus 1
chan queue = [W + 1] of {byte}; // started, on no wire
bool near_ended, near_parted;   // has said the end, farewell
bool near_left, near_gone;      // has heard farewell; its link is over

// The far server.
byte arriving[WIRES];           // a segment half landed, plus 1
byte ahead[W];                  // came ahead of its turn, plus 1
byte next;                      // all below stand in the receive queue
byte count;                     // the end, once it is known
byte ring[W];                   // the sequence that a place is free for, or was filled with
bool reading[W];
byte said = W, taken;
bool ended, far_parted, far_left, far_gone;

#define OVER (count != 0 && next == count - 1)
#define HAS(n) ((n) < next || ahead[(n) % W] == (n) + 1)
#define FREE_FOR(n) (ring[(n) % W] == (n) && (n) >= next && (n) < next + W)
#define SAID(here, kind) (book[here].value[kind] == 0)
#define ELSEWHERE(w, n) (arriving[w] == 0 || (arriving[w] - 1) % W != (n) % W)
#if DEATHS == 2
#define ALONE(w, n) (ELSEWHERE((w + 1) % 3, n) && ELSEWHERE((w + 2) % 3, n))
#define NO_WIRE !(near_open[0] && far_open[0] || near_open[1] && far_open[1] || near_open[2])
// Wires 0 and 1 are alike: the first one to die is called 0.
#define MAY_DIE(w) (w == 0 || w == 1 && !(near_open[0] && far_open[0]))
#define SETTLED(here) (SAID(here, FACT) && SAID(here, FAREWELL) && SAID(here, 3) && SAID(here, 4))
#define LEAVE(open) open[0] = false; open[1] = false; open[2] = false
#else
#define ALONE(w, n) ELSEWHERE(1 - w, n)
#define NO_WIRE false
#define MAY_DIE(w) (w == 0)
#define SETTLED(here) (SAID(here, FACT) && SAID(here, FAREWELL) && SAID(here, REPORT))
#define LEAVE(open) open[0] = false; open[1] = false
#endif
#ifdef FAREWELLS
#define MAY_PART true
#define DONE (near_gone && far_gone && ended)
#else
#define MAY_PART false
#define DONE ended
#endif
#ifdef HOLDING /* a consumer holds a segment until there is another one */
#define LETS_GO(place) (reading[place] && (taken > ring[place] + 1 || ended))
#else
#define LETS_GO(place) reading[place]
#endif

#ifdef BROKEN_CREDIT_NEVER_SINGLE
#define STARVES false
#else
#define STARVES (next == said)
#endif
#ifdef BROKEN_CREDIT_OUT_OF_TURN
#define FREED (W + (ring[0] + ring[W - 1] - 1) / W)
#define IS_NEW (said < FREED)
#else
#define IS_NEW (ring[said % W] == said && \
                (QUARTER == 1 || STARVES || ring[(said + 1) % W] == said + 1))
#endif
#ifdef BROKEN_NO_QUARANTINE
#define QUIET true
#else
#define QUIET (sent - arrived < W)
#endif
#ifdef BROKEN_FREE_AT_WRITE
#define GIVEN_BACK written
#else
#define GIVEN_BACK arrived
#endif
#ifdef BROKEN_KEEP_DUPLICATES
#define IS_DUPLICATE(n) false
#else
#define IS_DUPLICATE(n) HAS(n)
#endif
#ifdef BROKEN_REPORT_WITHOUT_CLOSING
#define READS(w) true
#define LEFT_OPEN true
#else
#define READS(w) far_open[w]
#define LEFT_OPEN false
#endif
#ifdef BROKEN_REPORT_NOT_ANSWERED
#define ANSWERS false
#else
#define ANSWERS true
#endif
#if defined(BROKEN_WORDS_LOST)
#define IS_KEPT(kind) false
#elif defined(BROKEN_REPORT_SAID_ONCE)
#define IS_KEPT(kind) (kind < REPORT)
#else
#define IS_KEPT(kind) true
#endif
#ifdef BROKEN_OLD_WORD_FORGETS_NEW
#define IS_LATEST(here) true
#else
#define IS_LATEST(here) (book[here].value[KIND(f)] == VALUE(f))
#endif
#ifdef BROKEN_END_AT_CLOSE
#define ALL_ARRIVED (sent == SEGMENTS)
#else
#define ALL_ARRIVED (arrived == SEGMENTS)
#endif
#ifdef BROKEN_END_WHEN_HEARD
#define ALL_TAKEN (count != 0)
#else
#define ALL_TAKEN (count != 0 && taken == count - 1)
#endif
#ifdef BROKEN_LEAVE_UNSETTLED
#define MAY_LEAVE(here) true
#else
#define MAY_LEAVE(here) SETTLED(here)
#endif

inline say(here, kind, what) {
    if
    :: what > book[here].value[kind] ->
       book[here].value[kind] = what;
       book[here].waits[kind] = true
    :: else
    fi
}

inline word_acknowledged(here) {
    if
    :: IS_LATEST(here) -> book[here].value[KIND(f)] = 0; book[here].waits[KIND(f)] = false
    :: else
    fi
}

// A word that waits, on a wire.
#define WRITE(here, kind, open, to) \
    atomic { \
        open[w] && book[here].waits[kind] -> \
        assert(nfull(to[w])); \
        to[w] ! FRAME(kind, book[here].value[kind]); \
        book[here].waits[kind] = false \
    }

// `f` was read. When that is known matters for words on wires that may die; the last one's are
// acknowledged at once.
inline was_read(here, frames) {
    if
    :: KIND(f) != 0 && w == LAST -> word_acknowledged(here)
    :: else -> assert(nfull(frames)); frames ! f
    fi
}

// Words among a dead wire's frames are said again, unless the other end is known to have them. The
// frames stay if they `may` still be read; segments await the report.
inline lose_words(here, frames, may) {
    i = len(frames);
    do
    :: i > 0 ->
       frames ? f;
       if
       :: may || KIND(f) == 0 -> frames ! f
       :: else
       fi;
       if
       :: KIND(f) != 0 && IS_KEPT(KIND(f)) && !SAID(here, KIND(f)) ->
          book[here].waits[KIND(f)] = true
       :: else
       fi;
       i--
    :: else -> break
    od;
    f = 0
}

// Segments of a dead wire, which some that are broken leave there as well.
inline send_again(frames, leave) {
    i = len(frames);
    do
    :: i > 0 ->
       frames ? f;
       if
       :: KIND(f) == 0 -> queue !! f
       :: else
       fi;
       if
       :: leave -> frames ! f
       :: else
       fi;
       i--
    :: else -> break
    od;
    f = 0
}

inline near_down(x) {
    near_open[x] = false;
#ifdef BROKEN_RESEND_BEFORE_REPORT
    send_again(had[x], false);
    send_again(out[x], true);
#endif
    lose_words(NEAR, had[x], false);
    lose_words(NEAR, out[x], far_open[x]);
    if
    :: !far_open[x] ->
       do
       :: nempty(back[x]) -> back[x] ? f
       :: empty(back[x]) -> break
       od;
       f = 0
    :: else
    fi;
    say(NEAR, REPORT + x, 1)
}

inline far_down(x) {
    far_open[x] = false;
#ifndef BROKEN_REPORT_WITHOUT_CLOSING
    arriving[x] = 0;
#endif
    lose_words(FAR, had_back[x], false);
    lose_words(FAR, back[x], near_open[x]);
    if
    :: !near_open[x] -> lose_words(NEAR, out[x], false)
    :: else
    fi;
    say(FAR, REPORT + x, 1)
}

inline acknowledge(n) {
    acknowledged[n % W] = n + 1
}

// What had arrived has; the rest is sent again. With SHORT_REPORT it says less, which does no harm.
inline take_report(x) {
    if
    :: ANSWERS && near_open[x] -> near_down(x)
    :: else
    fi;
    do
    :: nempty(had[x]) -> had[x] ? f; acknowledge(f)
    :: empty(had[x]) -> break
#ifdef SHORT_REPORT
    :: true -> break
#endif
    od;
    send_again(had[x], false);
    send_again(out[x], LEFT_OPEN)
}

// The near link's thread, as far as one wire is concerned.
proctype Near(byte w) {
    byte f, i, x;
end:
    do
    :: // A segment.
       atomic {
           near_open[w] && nempty(queue) ->
           queue ? f;
           assert(f >= GIVEN_BACK);
           assert(nfull(out[w]));
           out[w] ! f;
#ifdef BROKEN_FREE_AT_WRITE
           written = f + 1;
#endif
           f = 0
       }
    :: WRITE(NEAR, FACT, near_open, out)
    :: WRITE(NEAR, FAREWELL, near_open, out)
    :: WRITE(NEAR, REPORT, near_open, out)
#if DEATHS == 2
    :: WRITE(NEAR, REPORT + 1, near_open, out)
#endif
    :: // An acknowledgement.
       atomic {
           near_open[w] && nempty(had[w]) ->
           had[w] ? f;
           if
           :: KIND(f) == 0 -> acknowledge(f)
           :: else -> word_acknowledged(NEAR)
           fi;
           f = 0
       }
    :: // A word comes.
       atomic {
           near_open[w] && nempty(back[w]) ->
           back[w] ? f;
           if
           :: far_open[w] -> was_read(FAR, had_back[w])
           :: else
           fi;
           if
#if defined(BROKEN_CREDITS_ADDED)
           :: KIND(f) == FACT -> allowed++
#elif defined(BROKEN_CREDIT_HEARD_LAST)
           :: KIND(f) == FACT -> allowed = VALUE(f)
#else
           :: KIND(f) == FACT && VALUE(f) > allowed -> allowed = VALUE(f)
#endif
           :: KIND(f) == FAREWELL -> near_left = true
           :: KIND(f) >= REPORT -> x = KIND(f) - REPORT; assert(x != w); take_report(x); x = 0
           :: else
           fi;
           f = 0
       }
    :: // The wire dies, and the other end sees that by itself, or not.
       atomic {
           MAY_DIE(w) && near_open[w] && far_open[w] ->
           near_down(w);
           if
           :: sees[w] = true
           :: true
           fi
       }
    :: atomic {
           near_open[w] && !far_open[w] && (sees[w] || NO_WIRE) ->
           near_down(w);
           sees[w] = false
       }
    od
}

// Route::finish and ::start, ChannelMoves::close; and who leaves the channel.
proctype NearMover() {
end:
    do
    :: atomic {
           acknowledged[arrived % W] == arrived + 1 ->
           acknowledged[arrived % W] = 0;
           arrived++
       }
    :: atomic {
           sent < SEGMENTS && sent < allowed && QUIET ->
           assert(ring[sent % W] == sent); // a place has one on its way or not given back
           queue ! sent;
           sent++
       }
    :: atomic { !near_ended && ALL_ARRIVED -> say(NEAR, FACT, arrived + 1); near_ended = true }
    :: atomic {
           MAY_PART && near_ended && !near_parted ->
           say(NEAR, FAREWELL, 1);
           near_parted = true
       }
    :: atomic { near_parted && !near_gone && MAY_LEAVE(NEAR) -> near_gone = true; LEAVE(near_open) }
    :: // Or the other end has.
       atomic {
           far_gone && !near_gone ->
           assert(near_left && near_ended);
           near_gone = true;
           LEAVE(near_open)
       }
    od
}

inline take_in(n) {
    assert(!HAS(n));
#ifdef BROKEN_PUSH_AT_ARRIVAL
    ahead[next % W] = n + 1;
#else
    ahead[n % W] = n + 1;
#endif
    do
    :: ahead[next % W] != 0 ->
       assert(ahead[next % W] == next + 1); // in sequence
       ahead[next % W] = 0;
       next++
    :: else -> break
    od
}

// The far link's thread, likewise.
proctype Far(byte w) {
    byte f, i, x;
end:
    do
    :: // A segment begins to land, or a word comes.
       atomic {
           READS(w) && arriving[w] == 0 && nempty(out[w]) ->
           out[w] ? <f>;
           if
           :: KIND(f) == 0 && !IS_DUPLICATE(f) ->
              assert(FREE_FOR(f) && ALONE(w, f));
              arriving[w] = f + 1
#ifdef BROKEN_HALF_HAS_ARRIVED
              ; out[w] ? f; had[w] ! f
#endif
           :: else ->
              out[w] ? f;
              if
              :: near_open[w] || KIND(f) == 0 -> was_read(NEAR, had[w])
              :: else
              fi;
              if
              :: KIND(f) == FACT -> count = VALUE(f); assert(count - 1 >= next)
              :: KIND(f) == FAREWELL -> far_left = true
              :: KIND(f) >= REPORT && ANSWERS && far_open[KIND(f) - REPORT] ->
                 x = KIND(f) - REPORT;
                 far_down(x);
                 x = 0
              :: else
              fi
           fi;
           f = 0
       }
    :: // It is whole.
       atomic {
           READS(w) && arriving[w] != 0 ->
           f = arriving[w] - 1;
           arriving[w] = 0;
#ifndef BROKEN_HALF_HAS_ARRIVED
           out[w] ? eval(f);
           had[w] ! f;
#endif
           assert(FREE_FOR(f));
           take_in(f);
           f = 0
       }
    :: WRITE(FAR, FACT, far_open, back)
    :: WRITE(FAR, FAREWELL, far_open, back)
    :: WRITE(FAR, REPORT, far_open, back)
#if DEATHS == 2
    :: WRITE(FAR, REPORT + 1, far_open, back)
#endif
    :: atomic {
           far_open[w] && nempty(had_back[w]) ->
           had_back[w] ? f;
           word_acknowledged(FAR);
           f = 0
       }
    :: atomic {
           MAY_DIE(w) && near_open[w] && far_open[w] ->
           far_down(w);
           if
           :: sees[w] = true
           :: true
           fi
       }
    :: atomic {
           far_open[w] && !near_open[w] && (sees[w] || NO_WIRE) ->
           far_down(w);
           sees[w] = false
       }
#if DEATHS == 2
    :: // The near end has made a new wire in the place of wire 0.
       atomic {
           w == 2 && !far_open[2] && !near_open[0] && !near_gone && !far_gone ->
           if
           :: far_open[0] -> far_down(0); sees[0] = false
           :: else
           fi;
           near_open[2] = true;
           far_open[2] = true
       }
#endif
    od
}

// Intake::say_credits; and who leaves the channel.
proctype FarMover() {
end:
    do
    :: atomic {
           !OVER && IS_NEW ->
#ifdef BROKEN_CREDIT_OUT_OF_TURN
           said = FREED;
#else
           do
           :: ring[said % W] == said -> said++
           :: else -> break
           od;
#endif
           say(FAR, FACT, said)
       }
    :: atomic { MAY_PART && ended && !far_parted -> say(FAR, FAREWELL, 1); far_parted = true }
    :: atomic { far_parted && !far_gone && MAY_LEAVE(FAR) -> far_gone = true; LEAVE(far_open) }
    :: atomic {
           near_gone && !far_gone ->
           assert(far_left && OVER);
           far_gone = true;
           LEAVE(far_open)
       }
    od
}

#define GIVE_BACK(place) \
    atomic { LETS_GO(place) -> reading[place] = false; ring[place] = ring[place] + W }

// All groups that receive.
proctype Consumers() {
end:
    do
    :: atomic {
           taken < next ->
           assert(ring[taken % W] == taken && !reading[taken % W]);
           reading[taken % W] = true;
           taken++
       }
    :: GIVE_BACK(0)
#if W > 1
    :: GIVE_BACK(1)
#endif
    :: atomic { !ended && ALL_TAKEN -> assert(taken == SEGMENTS); ended = true }
    od
}

init {
    byte w;
    atomic {
        near_open[0] = true;
        far_open[0] = true;
        near_open[1] = true;
        far_open[1] = true;
        do
        :: w < W -> ring[w] = w; w++
        :: else -> break
        od;
        w = 0;
        do
        :: w < WIRES -> run Near(w); run Far(w); w++
        :: else -> break
        od;
        w = 0;
        run NearMover();
        run FarMover();
        run Consumers()
    }
    DONE
}

ltl everything_ends { <> DONE }
