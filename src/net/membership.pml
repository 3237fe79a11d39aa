/* membership.pml - a model of membership.h for Spin, searched by tests/check_membership.
 *
 * What must hold
 *   one list      at most one list a generation, whoever decides it, in whatever round
 *   no minority   a list that is decided was accepted by a quorum: more than half of the old
 *                 members, or exactly half with the lowest of them. Whoever is in it was at rest
 *   an end        whenever nothing moves any more, no living member waits: it has the next list, or
 *                 has left because it is out or because those that it can reach are too few. The
 *                 leader of the highest round is among them, so rounds come to something
 *   a majority    as long as no link between living members is lost nobody is out, whoever dies and
 *   decides       however slow others are, and nobody takes those that are left for too few unless
 *                 they are. With lost links: who can reach a quorum does not give up
 *
 * What can happen, at any instant and in any order
 *   - DEATHS members die. What they sent last may be lost, to all or to some: so a teller dies in
 *     the middle of telling
 *   - a member takes as long as it likes over anything: coming to rest, hearing, proposing,
 *     deciding. That is also what a pause is
 *   - LINKS links between living members are lost, on one side first, later on the other
 *   - any member that is at rest and leads no round begins one: its clock may always have run out.
 *     ROUNDS rounds a generation, in all
 *   - messages of different senders overtake each other
 *
 * How
 *   All members are one process, and whatever a member does is one step of it. Sets of members are
 *   bits. PREPARE, PROPOSE and DECIDE are on their way as long as they like: a round has the sets
 *   of those who have yet to hear each. Answers (PROMISE, REFUSE, ACCEPT, and DECIDE to one that
 *   asks for what is decided) are heard in the step in which they are given. Little is lost so:
 *   - a leader may take its time after it has heard them
 *   - an answer that changes nothing for who gives it may as well be given later
 *   - a promise that never arrives is one to a leader that has lost the link already, or the last
 *     one of a member that dies
 *   - an ACCEPT that does not arrive is one that the leader does not act upon, as it may
 *
 *   Rounds lie in the order of their numbers; one that is begun later may be lower. What a member
 *   had accepted when it promised is what it accepted in lower rounds. A list is called by the
 *   round that made it: so lists of the same members, but with other steps, are two.
 *
 * What is left out, and why
 *   - END: it makes others come to rest, which they do here by themselves. It is a question, too,
 *     to those who have decided: whoever comes to rest may be told at once. So are a PROMISE and a
 *     REFUSE to one that has decided since; without them it must do as well
 *   - steps, and guests with their numbers: parts of the list that the agreement does not look at
 *   - who wishes to leave: it is as one that dies when it has been told
 *   - a link that is lost on one side for ever: the other side is told, or hears no sign of life
 *   - that a message of one sender cannot overtake another of it: it may here
 *   - time: patience makes it likely that a round is alone at last. Here rounds disturb each other
 *     at will until they are used up; who then waits, and leads none, would begin another
 *
 * Parameters: N members, and GENERATIONS agreements in a row, the second among those of the first
 * one's list. BOARD: all are of one launcher, which reaps the dead in its own time. Those leave the
 * count, and a list counts if it is the first on the board. There a leader decides when all that
 * are there have accepted, not just a quorum: else it could die with a list on the board that those
 * who are left do not know.
 *
 * Faults are put in by the names that FAULTS in tests/check_membership has. */

#ifndef GENERATIONS
#define GENERATIONS 1
#endif
#define SLOTS (GENERATIONS * ROUNDS)

/* ---- sets of members ---- */

#define ALL ((1 << N) - 1)
#define ONE(q) (1 << (q))
#define HAS(set, q) ((set) >> (q) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3))
#define LOWEST(set) ((set) & -(set))
#define ADD(set, q) set = set | ONE(q)
#define TAKE(set, q) set = set & ~ONE(q)
#define TAKE_IF(yes, set, q) set = (yes -> set & ~ONE(q) : set)

/* ---- the state ---- */

/* Rounds are called by their place + 1; 0 is none. */
typedef Round {
    unsigned leader : 2;
    unsigned number : 3;   /* the upper half; the lower one is the leader */
    unsigned leads : 1;    /* the leader still goes by it */
    unsigned list : 4;     /* that is proposed: the round that made it; 0: none yet */
    unsigned prepare : N;  /* PREPARE is on its way to these */
    unsigned promised : N; /* the leader has their promise; and these are in the list made here */
    unsigned propose : N;  /* PROPOSE is on its way to these */
    unsigned accepted : N; /* by these */
    unsigned decide : N;   /* DECIDE is on its way to these */
    unsigned lost : 16     /* by member, as it said with its promise: whom it had lost */
};
Round round[SLOTS]; /* a generation's next to each other, in the order of numbers */
byte begun[GENERATIONS];

byte lost[N];     /* by member: those that it has lost */
byte promised[N]; /* by member: the highest round that it knows of */
unsigned rest : N;
unsigned evicted : N; /* and not gone yet */
unsigned dead : N;
unsigned deaths : 2;
unsigned links : 3; /* lost between living members */
#ifdef BOARD
unsigned reaped : N;
#else
#define reaped 0
#endif
byte knows[GENERATIONS];       /* these have decided that list */
byte members[GENERATIONS + 1]; /* of each generation */
byte chosen[GENERATIONS];      /* the list that was decided first; 0: none yet */

/* Of one step; nothing is kept in them. q does something, to or with p, or in the round at s. */
hidden byte q, p, s, i, j, k, m, worst, most;

#define GENERATION(slot) ((slot) / ROUNDS) /* that the round is to end */
#if GENERATIONS == 1
#define NOW(q) HAS(knows[0], q) /* the generation that it is in */
#else
#define NOW(q) (HAS(knows[0], q) + HAS(knows[1], q))
#endif
#define LIVING (ALL & ~dead)
#define LIVES(q) (!HAS(dead, q))
#define WAITS(q) (LIVES(q) && NOW(q) < GENERATIONS)
#define MAY_REST(q) (!HAS(evicted, q) && (HAS(rest, q) || !promised[q]))
#define HEARS(q, p) (LIVES(q) && !HAS(lost[q], p))
#define CAN_NOTICE(q, p) (HEARS(q, p) && (HAS(dead, p) || HAS(lost[p], q))) /* that p is gone */
#define LEFT(q) (members[NOW(q)] & ~lost[q]) /* those that are there, as it sees it */
#define ADD_LOST(slot, q) round[slot].lost = round[slot].lost | lost[q] << (q) * N
#define HAD_LOST(slot, q, p) (round[slot].lost >> ((q) * N + (p)) & 1)
#define LEADS(q, slot) (LIVES(q) && round[slot].leads && round[slot].leader == q)

#define COUNTED(g) (members[g] & ~reaped)
#define MORE(set, g) (2 * COUNT((set) & COUNTED(g)) > COUNT(COUNTED(g)))
#define HALF(set, g) (2 * COUNT((set) & COUNTED(g)) == COUNT(COUNTED(g)))
#define IS_QUORUM(set, g) (MORE(set, g) || (HALF(set, g) && ((set) & LOWEST(COUNTED(g)))))
#ifdef ANY_HALF
#define QUORUM(set, g) (MORE(set, g) || HALF(set, g))
#else
#define QUORUM(set, g) IS_QUORUM(set, g)
#endif

#include "membership_search.pml"

#define MUST(law, words)                                                                           \
    if                                                                                             \
    :: law                                                                                         \
    :: else -> printf(words); assert(false)                                                        \
    fi

inline lead_no_more(me)
{
    for (i : 0 .. SLOTS - 1) {
        round[i].leads = (round[i].leader == me -> 0 : round[i].leads)
    }
}

/* ---- deciding ---- */

inline evict(me)
{
    printf("   %d is out\n", me);
    ADD(evicted, me)
}

/* It is told the list that follows generation g, if it does not have it. */
inline learn(me, g)
{
    if
    :: NOW(me) != g || HAS(evicted, me)
    :: else ->
        for (i : g * ROUNDS .. g * ROUNDS + ROUNDS - 1) {
            TAKE(round[i].decide, me)
        }
        if
        :: HAS(members[g + 1], me) ->
            printf("   %d goes on\n", me);
            lead_no_more(me);
            ADD(knows[g], me);
            TAKE(rest, me);
            promised[me] = 0
        :: else ->
            evict(me)
        fi
    fi
}

/* What `me` has decided goes to `who`, that asked about the end of generation g. */
inline tell_news(me, who, g)
{
#ifdef TELLS_NO_NEWS
    skip
#else
    if
    :: HEARS(who, me) && NOW(who) == g && NOW(me) == g + 1 ->
        learn(who, g)
    :: HEARS(who, me) && NOW(who) == g && NOW(me) > g + 1 && !HAS(evicted, who) ->
        MUST(!HAS(members[NOW(me)], who), "WRONG: a member has missed a generation of its own\n");
        evict(who)
    :: else
    fi
#endif
}

/* ---- answers ---- */

inline promise(me, slot)
{
#ifdef FORGETS_ACCEPTED
    for (i : 0 .. SLOTS - 1) {
        TAKE_IF(!round[i].leads, round[i].accepted, me)
    }
#endif
    if
    :: round[slot].leads && HEARS(round[slot].leader, me) ->
        ADD(round[slot].promised, me);
        ADD_LOST(slot, me)
    :: else
    fi
}

/* `me` says to `who` that there is a higher round for the end of generation g. */
inline refuse(me, who, g, higher)
{
    if
    :: HEARS(who, me) && NOW(who) == g && promised[who] < higher ->
        printf("   %d refuses, and %d hears it\n", me, who);
        lead_no_more(who);
        promised[who] = higher
    :: else
    fi
}

/* ---- what members do: when they can, and what ---- */

/* A member that nobody has asked comes to rest with the first thing that it does at rest: whether
 * it has been so before makes no difference. */
#define CAN_REST(q) (WAITS(q) && !HAS(rest, q) && !HAS(evicted, q))
#define CAN_REST_AND_ANSWER(q) (CAN_REST(q) && promised[q])
inline come_to_rest_and_answer()
{
    printf("%d comes to rest\n", q);
    ADD(rest, q);
    s = promised[q] - 1;
    if
    :: HEARS(q, round[s].leader) -> promise(q, s)
    :: else
    fi
}

/* It says END, and somebody that has decided hears it. */
#define CAN_REST_AND_HEAR(q, p)                                                                    \
    (CAN_REST(q) && HEARS(q, p) && HEARS(p, q) && NOW(p) > NOW(q))
inline come_to_rest_and_hear()
{
    printf("%d comes to rest, and %d tells it the news\n", q, p);
    ADD(rest, q);
    tell_news(p, q, NOW(q))
}

#define CAN_BEGIN(q)                                                                               \
    (WAITS(q) && MAY_REST(q) && begun[NOW(q)] < ROUNDS && !ANY_SLOT(LEADS, q) &&                   \
     QUORUM(LEFT(q), NOW(q)))
inline begin_round()
{
    k = (promised[q] -> round[promised[q] - 1].number + 1 : 1);
    s = NOW(q) * ROUNDS;
    i = s + begun[NOW(q)];
    do
    :: s < i && (round[s].number < k || (round[s].number == k && round[s].leader < q)) -> s++
    :: else -> break
    od;
    make_room(NOW(q));
    forget_round(s);
    round[s].leader = q;
    round[s].number = k;
    round[s].leads = 1;
    round[s].prepare = LEFT(q) & LIVING & ~ONE(q);
    round[s].promised = ONE(q);
    ADD_LOST(s, q);
    promised[q] = s + 1;
    ADD(rest, q);
    printf("%d begins round %d.%d\n", q, k, q)
}

#define CAN_HEAR_PREPARE(q, slot)                                                                  \
    (LIVES(q) && HAS(round[slot].prepare, q) && NOW(q) >= GENERATION(slot))
inline hear_prepare()
{
    p = round[s].leader;
    printf("%d hears PREPARE %d.%d\n", q, round[s].number, p);
    TAKE(round[s].prepare, q);
    if
    :: NOW(q) > GENERATION(s) ->
        tell_news(q, p, GENERATION(s))
    :: NOW(q) == GENERATION(s) && promised[q] > s + 1 ->
        refuse(q, p, GENERATION(s), promised[q])
    :: else ->
        refuse_who_asked_before();
        promised[q] = s + 1;
        lead_no_more(q);
        if
        :: HAS(rest, q) -> promise(q, s)
        :: else
        fi
    fi
}

#define CAN_REST_AND_HEAR_PREPARE(q, slot)                                                         \
    (CAN_REST(q) && !promised[q] && HAS(round[slot].prepare, q) && NOW(q) == GENERATION(slot))
inline come_to_rest_and_hear_prepare()
{
    printf("%d is at rest\n", q);
    ADD(rest, q);
    hear_prepare()
}

/* One that is not at rest yet promises to one alone, when it is. */
inline refuse_who_asked_before()
{
#ifdef FORGETS_WHO_ASKED
    skip
#else
    if
    :: !HAS(rest, q) && promised[q] ->
        p = round[promised[q] - 1].leader;
        refuse(q, p, GENERATION(s), s + 1)
    :: else
    fi
#endif
}

/* It is of the generation after the next: it is kept, and the sender asked for what is decided. */
#define CAN_ASK(q, slot)                                                                           \
    (LIVES(q) && HAS(round[slot].prepare, q) && NOW(q) < GENERATION(slot) && !HAS(evicted, q) &&   \
     HEARS(round[slot].leader, q))
inline ask()
{
    p = round[s].leader;
    printf("%d hears PREPARE %d.%d too early, and asks\n", q, round[s].number, p);
    tell_news(p, q, NOW(q))
}

#ifdef WAITS_FOR_THE_LOST
#define ALL_PROMISED(slot) (!(members[GENERATION(slot)] & ~round[slot].promised))
#else
#define ALL_PROMISED(slot) (!(LEFT(round[slot].leader) & ~round[slot].promised))
#endif
#define CAN_PROPOSE(q, slot)                                                                       \
    (LEADS(q, slot) && !round[slot].list && ALL_PROMISED(slot) &&                                  \
     QUORUM(round[slot].promised, GENERATION(slot)))
#ifdef TAKES_LOWEST
#define TAKES_THIS(list) (!(list))
#else
#define TAKES_THIS(list) true
#endif
inline propose_list()
{
    k = 0;
#ifndef PROPOSES_ANEW
    for (i : GENERATION(s) * ROUNDS .. s - 1) {
        k = (TAKES_THIS(k) && round[i].accepted & round[s].promised -> round[i].list : k)
    }
#endif
    if
    :: k -> round[s].list = k
    :: else ->
        round[s].list = s + 1;
        round[s].promised = round[s].promised & LEFT(q);
        part_the_quarrelling()
    fi;
    round[s].propose = LEFT(q) & LIVING & ~ONE(q);
    ADD(round[s].accepted, q);
    k = round[s].list - 1;
    printf("%d proposes the list of %d.%d\n", q, round[k].number, round[k].leader)
}

/* Of those in the list who had lost each other when they promised, who is farthest apart stays
 * behind, of equals the last: above all those count who have lost it, then those whom it has lost.
 * So of two that have lost each other one goes on, and of one that is dead and one that knows it
 * the latter. */
#ifdef PARTS_FROM_THE_DEAD
#define APART(i, j) (HAD_LOST(s, i, j) || HAD_LOST(s, j, i))
#else
#define APART(i, j) (N * HAD_LOST(s, j, i) + HAD_LOST(s, i, j))
#endif
inline part_the_quarrelling()
{
    do
    :: true ->
        worst = N;
        most = 1;
        for (i : 0 .. N - 1) {
            k = 0;
            for (j : 0 .. N - 1) {
                k = k + (HAS(round[s].promised, j) -> APART(i, j) : 0)
            }
            worst = (HAS(round[s].promised, i) && k >= most -> i : worst);
            most = (HAS(round[s].promised, i) && k >= most -> k : most)
        }
        if
        :: worst == N -> break
        :: else -> printf("   %d is to stay behind\n", worst); TAKE(round[s].promised, worst)
        fi
    od
}

#define CAN_HEAR_PROPOSE(q, slot) (LIVES(q) && HAS(round[slot].propose, q))
inline hear_propose()
{
    p = round[s].leader;
    printf("%d hears PROPOSE %d.%d\n", q, round[s].number, p);
    TAKE(round[s].propose, q);
    if
    :: NOW(q) > GENERATION(s) ->
        tell_news(q, p, GENERATION(s))
#ifndef ACCEPTS_LOWER
    :: NOW(q) == GENERATION(s) && promised[q] > s + 1 ->
        refuse(q, p, GENERATION(s), promised[q])
#endif
    :: else ->
        promised[q] = (promised[q] > s + 1 -> promised[q] : s + 1);
        ADD(round[s].accepted, q)
    fi
}

#define ALL_ACCEPTED(slot) (!(LEFT(round[slot].leader) & ~round[slot].accepted))
#if defined(BOARD) && !defined(DECIDES_EARLY)
#define ENOUGH(slot) (QUORUM(round[slot].accepted, GENERATION(slot)) && ALL_ACCEPTED(slot))
#elif defined(DECIDES_WITHOUT_QUORUM)
#define ENOUGH(slot) ALL_ACCEPTED(slot)
#else
#define ENOUGH(slot) QUORUM(round[slot].accepted, GENERATION(slot))
#endif
#define CAN_DECIDE(q, slot) (LEADS(q, slot) && round[slot].list && ENOUGH(slot))
inline decide_list()
{
    k = round[s].list;
    printf("%d decides the list of %d.%d\n", q, round[k - 1].number, round[k - 1].leader);
#ifndef ANY_HALF /* which is to be found by what it does */
    MUST(IS_QUORUM(round[s].accepted, GENERATION(s)), "WRONG: no quorum has accepted it\n");
#endif
    if
#if defined(BOARD) && !defined(IGNORES_BOARD)
    :: chosen[GENERATION(s)] && chosen[GENERATION(s)] != k ->
        evict(q);
        lead_no_more(q)
#endif
    :: else ->
        tell_all()
    fi
}

inline tell_all()
{
    MUST(!chosen[GENERATION(s)] || chosen[GENERATION(s)] == k, "WRONG: another list was decided\n");
    MUST(!(round[k - 1].promised & LIVING & ~rest & ~knows[GENERATION(s)]),
         "WRONG: one of the list is not at rest\n");
    members[GENERATION(s) + 1] =
        (chosen[GENERATION(s)] -> members[GENERATION(s) + 1] : round[k - 1].promised);
    chosen[GENERATION(s)] = k;
    round[s].decide = LEFT(q) & LIVING & ~ONE(q) & ~knows[GENERATION(s)];
    learn(q, GENERATION(s))
}

#define CAN_HEAR_DECIDE(q, slot) (LIVES(q) && HAS(round[slot].decide, q))
inline hear_decide()
{
    printf("%d hears DECIDE of %d\n", q, round[s].leader);
    TAKE(round[s].decide, q);
    learn(q, GENERATION(s))
}

/* ---- members go ---- */

inline cease()
{
    ADD(dead, q);
    TAKE(rest, q);
    TAKE(evicted, q);
    promised[q] = 0;
    lost[q] = 0;
    for (j : 0 .. GENERATIONS - 1) {
        TAKE(knows[j], q)
    }
    for (j : 0 .. SLOTS - 1) {
        TAKE(round[j].prepare, q);
        TAKE(round[j].propose, q);
        TAKE(round[j].decide, q)
    }
    lead_no_more(q)
}

#define CAN_DIE(q) (LIVES(q) && deaths < DEATHS)
inline die()
{
    printf("%d dies\n", q);
    deaths++;
    cease()
}

/* Its last promise does not arrive. */
#define CAN_DIE_UNHEARD(q, slot)                                                                   \
    (CAN_DIE(q) && round[slot].leads && round[slot].leader != q && !round[slot].list &&            \
     HAS(round[slot].promised, q))
inline die_unheard()
{
    printf("the last promise of %d, to %d, is lost\n", q, round[s].leader);
    TAKE(round[s].promised, q);
    round[s].lost = round[s].lost & ~(ALL << q * N);
    die()
}

/* It is out; or those that it can reach are too few, and nobody is left to be reaped. */
#ifdef BOARD
#define REAPED_ALL (!(dead & ~reaped))
#else
#define REAPED_ALL true
#endif
#define IS_HOPELESS(q)                                                                             \
    (WAITS(q) && MAY_REST(q) && !QUORUM(LEFT(q), NOW(q)) && REAPED_ALL)
#define CAN_LEAVE(q) ((LIVES(q) && HAS(evicted, q)) || IS_HOPELESS(q))
inline leave()
{
    printf("%d leaves\n", q);
    MUST(links || !HAS(evicted, q), "WRONG: a member is out though no link was lost\n");
    MUST(links || !IS_QUORUM(LIVING, NOW(q)), "WRONG: a member of a living quorum gives up\n");
    cease()
}

#ifdef BOARD
#define CAN_REAP(q) (HAS(dead, q) && !HAS(reaped, q))
inline reap()
{
    printf("%d is reaped\n", q);
    ADD(reaped, q)
}
#endif

/* ---- links go ---- */

inline lose()
{
    printf("%d loses %d\n", q, p);
    ADD(lost[q], p);
    for (j : 0 .. SLOTS - 1) {
        TAKE_IF(round[j].leader == p, round[j].prepare, q);
        TAKE_IF(round[j].leader == p, round[j].propose, q);
        TAKE_IF(round[j].leader == p, round[j].decide, q)
    }
}

#define CAN_SUSPECT(q, p) (HEARS(q, p) && HEARS(p, q) && links < LINKS)
inline suspect()
{
    links++;
    lose()
}

/* ---- all of it ---- */

#define WOULD_BEGIN(q) (WAITS(q) && !ANY_SLOT(LEADS, q) && begun[NOW(q)] == ROUNDS)
inline check_end()
{
    for (q : 0 .. N - 1) {
        MUST(!WAITS(q) || (false EACH_MEMBER(OR, WOULD_BEGIN)),
             "WRONG: a member waits for ever\n")
    }
    for (i : 0 .. GENERATIONS - 1) {
        p = (begun[i] -> round[i * ROUNDS + begun[i] - 1].leader : 0);
        MUST(!begun[i] || !LIVES(p) || NOW(p) > i, "WRONG: the highest round comes to nothing\n")
    }
}

active proctype run_of_members()
{
    members[0] = ALL;
end:
    do
    MEMBER(CAN_REST_AND_ANSWER, come_to_rest_and_answer)
    PAIR(CAN_REST_AND_HEAR, come_to_rest_and_hear)
    MEMBER(CAN_BEGIN, begin_round)
    IN_ROUND(CAN_HEAR_PREPARE, hear_prepare)
    IN_ROUND(CAN_REST_AND_HEAR_PREPARE, come_to_rest_and_hear_prepare)
    IN_ROUND(CAN_PROPOSE, propose_list)
    IN_ROUND(CAN_HEAR_PROPOSE, hear_propose)
    IN_ROUND(CAN_DECIDE, decide_list)
    IN_ROUND(CAN_HEAR_DECIDE, hear_decide)
    MEMBER(CAN_DIE, die)
    IN_ROUND(CAN_DIE_UNHEARD, die_unheard)
    MEMBER(CAN_LEAVE, leave)
    PAIR(CAN_NOTICE, lose)
    PAIR(CAN_SUSPECT, suspect)
#if GENERATIONS > 1
    IN_ROUND(CAN_ASK, ask)
#endif
#ifdef BOARD
    MEMBER(CAN_REAP, reap)
#endif
    :: d_step { !MOVES -> check_end(); skip }
    od
}
