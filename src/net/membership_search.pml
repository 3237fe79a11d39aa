/* membership_search.pml - of membership.pml: what keeps the search small, and how it picks what
 * happens next.
 *
 * After each step whatever cannot matter any more is zero, so that states that differ in nothing
 * else are one. */

/* ---- rounds ---- */

inline forget_round(slot)
{
    round[slot].leader = 0;
    round[slot].number = 0;
    round[slot].leads = 0;
    round[slot].list = 0;
    round[slot].prepare = 0;
    round[slot].promised = 0;
    round[slot].propose = 0;
    round[slot].accepted = 0;
    round[slot].decide = 0;
    round[slot].lost = 0
}

inline move_up(slot)
{
    round[slot + 1].leader = round[slot].leader;
    round[slot + 1].number = round[slot].number;
    round[slot + 1].leads = round[slot].leads;
    round[slot + 1].list = round[slot].list;
    round[slot + 1].prepare = round[slot].prepare;
    round[slot + 1].promised = round[slot].promised;
    round[slot + 1].propose = round[slot].propose;
    round[slot + 1].accepted = round[slot].accepted;
    round[slot + 1].decide = round[slot].decide;
    round[slot + 1].lost = round[slot].lost
}

/* Generation g's rounds from s on move up. i: the first free place. */
inline make_room(g)
{
    for (j : 1 .. i - s) {
        move_up(i - j)
    }
    for (j : g * ROUNDS .. i) {
        round[j].list = round[j].list + (round[j].list > s)
    }
    for (j : 0 .. N - 1) {
        promised[j] = promised[j] + (NOW(j) == g && promised[j] > s)
    }
    chosen[g] = chosen[g] + (chosen[g] > s);
    begun[g]++
}

/* ---- after each step ---- */

/* Nobody takes part in generation g's end any more. */
#define IS_PAST(g) (!(LIVING & ~knows[g]))
/* Its leader would learn nothing from an answer of q. */
#define IS_DEAF(slot, q)                                                                           \
    (!HEARS(round[slot].leader, q) || NOW(round[slot].leader) > GENERATION(slot) ||                \
     HAS(evicted, round[slot].leader))
/* And q would only say what is decided, or refuse. */
#define IS_VAIN(slot, q)                                                                           \
    (IS_DEAF(slot, q) && (NOW(q) > GENERATION(slot) ||                                             \
                          (NOW(q) == GENERATION(slot) && promised[q] > (slot) + 1)))

inline forget_messages()
{
    for (i : 0 .. SLOTS - 1) {
        for (q : 0 .. N - 1) {
            if
            :: HAS(round[i].prepare | round[i].propose, q) && IS_VAIN(i, q) ->
                TAKE(round[i].prepare, q);
                TAKE(round[i].propose, q)
            :: else
            fi
        }
    }
}

/* What somebody accepted matters to a round that counts it, or that has its promise, or if it can
 * still promise. A list matters if it is accepted, or can be. */
#if N == 3
#define EACH_ROW(set) ((set) | (set) << N | (set) << 2 * N)
#else
#define EACH_ROW(set) ((set) | (set) << N | (set) << 2 * N | (set) << 3 * N)
#endif
inline forget_lists()
{
    k = 0;
    for (i : 0 .. SLOTS - 1) {
        k = k | (round[i].leads && !round[i].list -> round[i].promised : 0)
    }
    m = 0;
    for (i : 0 .. SLOTS - 1) {
        if
        :: !round[i].leads ->
            round[i].accepted = round[i].accepted & (k | (LIVING & ~knows[GENERATION(i)]));
            round[i].list = (round[i].accepted | round[i].propose -> round[i].list : 0)
        :: else
        fi;
        m = m | 1 << round[i].list
    }
    for (i : 0 .. SLOTS - 1) {
        round[i].promised = ((round[i].leads && !round[i].list) || (m >> (i + 1) & 1) ->
                                 round[i].promised : 0);
        k = round[i].promised | LIVING; /* whom it matters to have lost */
        round[i].lost =
            (round[i].leads && !round[i].list -> round[i].lost & EACH_ROW(k) : 0)
    }
}

inline tidy()
{
    for (j : 0 .. GENERATIONS - 1) {
        if
        :: IS_PAST(j) ->
            for (i : j * ROUNDS .. j * ROUNDS + ROUNDS - 1) {
                forget_round(i)
            }
            begun[j] = ROUNDS;
            chosen[j] = 1
        :: else
        fi
    }
    forget_messages();
    forget_lists()
}

/* ---- who can do what ---- */

#if SLOTS == 2
#define EACH_SLOT(X, can, q) X(can, q, 0) X(can, q, 1)
#elif SLOTS == 3
#define EACH_SLOT(X, can, q) X(can, q, 0) X(can, q, 1) X(can, q, 2)
#elif SLOTS == 4
#define EACH_SLOT(X, can, q) X(can, q, 0) X(can, q, 1) X(can, q, 2) X(can, q, 3)
#elif SLOTS == 5
#define EACH_SLOT(X, can, q) X(can, q, 0) X(can, q, 1) X(can, q, 2) X(can, q, 3) X(can, q, 4)
#elif SLOTS == 6
#define EACH_SLOT(X, can, q)                                                                       \
    X(can, q, 0) X(can, q, 1) X(can, q, 2) X(can, q, 3) X(can, q, 4) X(can, q, 5)
#endif
#if N == 3
#define EACH_MEMBER(X, can) X(can, 0) X(can, 1) X(can, 2)
#define EACH_IN_ROUND(X, can)                                                                      \
    EACH_SLOT(X, can, 0) EACH_SLOT(X, can, 1) EACH_SLOT(X, can, 2)
#define EACH_PAIR(X, can)                                                                          \
    X(can, 0, 1) X(can, 0, 2) X(can, 1, 0) X(can, 1, 2) X(can, 2, 0) X(can, 2, 1)
#elif N == 4
#define EACH_MEMBER(X, can) X(can, 0) X(can, 1) X(can, 2) X(can, 3)
#define EACH_IN_ROUND(X, can)                                                                      \
    EACH_SLOT(X, can, 0) EACH_SLOT(X, can, 1) EACH_SLOT(X, can, 2) EACH_SLOT(X, can, 3)
#define EACH_PAIR(X, can)                                                                          \
    X(can, 0, 1) X(can, 0, 2) X(can, 0, 3) X(can, 1, 0) X(can, 1, 2) X(can, 1, 3)                  \
    X(can, 2, 0) X(can, 2, 1) X(can, 2, 3) X(can, 3, 0) X(can, 3, 1) X(can, 3, 2)
#endif

#define OR(can, q) || can(q)
#define OR_WITH(can, q, x) || can(q, x)
#define ANY_SLOT(is, q) (false EACH_SLOT(OR_WITH, is, q))

#define PICK(can, a) :: d_step { can(a) -> q = a }
#define PICK_ROUND(can, a, b) :: d_step { can(a, b) -> q = a; s = b }
#define PICK_PEER(can, a, b) :: d_step { can(a, b) -> q = a; p = b }
#define MEMBER(can, does)                                                                          \
    :: atomic { if EACH_MEMBER(PICK, can) fi; d_step { does(); tidy(); skip } }
#define IN_ROUND(can, does)                                                                        \
    :: atomic { if EACH_IN_ROUND(PICK_ROUND, can) fi; d_step { does(); tidy(); skip } }
#define PAIR(can, does)                                                                            \
    :: atomic { if EACH_PAIR(PICK_PEER, can) fi; d_step { does(); tidy(); skip } }

/* Nothing moves, unless somebody dies or a link is lost. */
#define MOVES                                                                                      \
    (false EACH_IN_ROUND(OR_WITH, CAN_HEAR_PREPARE) EACH_IN_ROUND(OR_WITH, CAN_HEAR_PROPOSE)       \
     EACH_IN_ROUND(OR_WITH, CAN_HEAR_DECIDE) EACH_MEMBER(OR, CAN_REST_AND_ANSWER)                  \
     EACH_PAIR(OR_WITH, CAN_NOTICE) EACH_MEMBER(OR, CAN_BEGIN) EACH_MEMBER(OR, CAN_LEAVE)          \
     EACH_IN_ROUND(OR_WITH, CAN_PROPOSE) EACH_IN_ROUND(OR_WITH, CAN_DECIDE)                        \
     EACH_IN_ROUND(OR_WITH, CAN_ASK) REAPS)
#ifdef BOARD
#define REAPS EACH_MEMBER(OR, CAN_REAP)
#else
#define REAPS
#endif
