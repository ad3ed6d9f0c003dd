// Relays (designed, not yet built): a path may lead through other devices, which forward whole
// segments. On a ring of NODES devices, device i sends to device i + RELAYS + 1 through the ones
// between. A copy starts only with a credit at the FINAL destination and, hop by hop, a relay slot of
// that hop's own class: a slot of class k waits for one of class k + 1 only, the last one for nothing,
// since its credit is already held. So waits cannot form a circle.
//
// With CHANNELS=2 consumers take the first channel to its end before they touch the second (a join
// that builds one side first), while both share the relays.
//
// Asserted: slots and credits are never over- or underdrawn, every segment arrives, once. Someone who
// waits for ever is an invalid end state; each step moves a segment on, so there is no other way not
// to end.
//
// models: pass -DNODES=4 -DRELAYS=2
// models: pass -DNODES=4 -DRELAYS=2 -DCREDITS=1
// models: pass -DNODES=3 -DRELAYS=1 -DCHANNELS=2 -DCREDITS=1
// models: pass -DNODES=3 -DRELAYS=1 ltl(everything_arrives)
// models: fail(deadlock)  -DNODES=4 -DRELAYS=2 -DBROKEN_SHARED_POOL
// models: fail(deadlock)  -DNODES=3 -DRELAYS=1 -DCHANNELS=2 -DCREDITS=1 -DBROKEN_NO_FINAL_CREDIT
// models: fail(assertion) -DNODES=3 -DRELAYS=1 -DCREDITS=1 -DBROKEN_CREDIT_RETURNED_ON_ARRIVAL

#ifndef CHANNELS
#define CHANNELS 1
#endif
#ifndef CREDITS
#define CREDITS 2 /* receive pool of each (channel, source, destination) */
#endif
#define SEGMENTS 2                   /* of each flow */
#define FLOWS (NODES * CHANNELS)     /* flow f starts at node f % NODES, is of channel f / NODES */
#define STAGES (RELAYS + 2)          /* at the source, in a relay of class 1.., at the destination */
#define NODE(f, stage) (((f) + (stage)) % NODES)
#define SLOT(node, class) ((node) * RELAYS + (class) - 1)

byte at[FLOWS * STAGES];             // segments of a flow that lie at a stage
byte credits[FLOWS];
byte relay[NODES * RELAYS];          // free slots of a node's class
byte taken[FLOWS];
byte arrived;

#ifdef BROKEN_SHARED_POOL
// As many slots in all, but any class may take any of them.
byte pool[NODES];
#define HAS_RELAY(node, class) (pool[node] > 0)
#define TAKE_RELAY(node, class) pool[node]--
#define FREE_RELAY(node, class) pool[node]++
#else
#define HAS_RELAY(node, class) (relay[SLOT(node, class)] > 0)
#define TAKE_RELAY(node, class) relay[SLOT(node, class)]--
#define FREE_RELAY(node, class) relay[SLOT(node, class)]++
#endif

#ifdef BROKEN_NO_FINAL_CREDIT
#define PAID_AT RELAYS /* the stage that asks for the credit: at the last hop */
#else
#define PAID_AT 0
#endif

// The mover of one device for one flow and stage: copies a segment one hop on as soon as its next place
// is free. A copy ends by itself, so that one step stands for all of it.
proctype Mover(byte f; byte stage) {
    byte left = SEGMENTS;
    do
    :: left > 0 ->
       atomic {
           at[f * STAGES + stage] > 0 && (stage != PAID_AT || credits[f] > 0) &&
           (stage == RELAYS || HAS_RELAY(NODE(f, stage + 1), stage + 1)) ->
           if
           :: stage == PAID_AT -> credits[f]--
           :: else
           fi;
           if
           :: stage < RELAYS -> TAKE_RELAY(NODE(f, stage + 1), stage + 1)
           :: else
           fi;
           if
           :: stage > 0 -> FREE_RELAY(NODE(f, stage), stage)
           :: else
           fi;
           at[f * STAGES + stage]--;
           at[f * STAGES + stage + 1]++;
           assert(at[f * STAGES + RELAYS + 1] <= CREDITS);
#ifdef BROKEN_CREDIT_RETURNED_ON_ARRIVAL
           if
           :: stage == RELAYS -> credits[f]++
           :: else
           fi;
#endif
           left--
       }
    :: else -> break
    od
}

proctype Consumer(byte node) {
    byte channel, f;
    do
    :: channel < CHANNELS ->
       // Who sends to this node on this channel.
       f = channel * NODES + (node + 2 * NODES - RELAYS - 1) % NODES;
       do
       :: taken[f] < SEGMENTS ->
          atomic { at[f * STAGES + RELAYS + 1] > 0 -> taken[f]++ }
          // Reads it, then gives the credit back.
          atomic {
              at[f * STAGES + RELAYS + 1]--;
#ifndef BROKEN_CREDIT_RETURNED_ON_ARRIVAL
              credits[f]++;
              assert(credits[f] <= CREDITS);
#endif
          }
       :: else -> break
       od;
       atomic { channel++; f = 0 }
    :: else -> break
    od;
    arrived++
}

init {
    byte f, stage;
    atomic {
        do
        :: f < FLOWS ->
           at[f * STAGES] = SEGMENTS;
           credits[f] = CREDITS;
           stage = 0;
           do
           :: stage <= RELAYS -> run Mover(f, stage); stage++
           :: else -> break
           od;
           f++
        :: else -> break
        od;
        f = 0;
        do
        :: f < NODES ->
#ifdef BROKEN_SHARED_POOL
           pool[f] = RELAYS;
#endif
           stage = 1;
           do
           :: stage <= RELAYS -> relay[SLOT(f, stage)] = 1; stage++
           :: else -> break
           od;
           run Consumer(f);
           f++
        :: else -> break
        od
    }
}

ltl everything_arrives { <> (arrived == NODES) }
