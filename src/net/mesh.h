/* mesh.h - who is who in a run, and the only maker of groups.
 *
 * Words. The members of a generation are the ranks that take part now; when one goes, or comes, the
 * next generation begins with other members. A rank that computes holds one part of the model: it
 * is (replica, stage, part). Its groups are
 *
 *   all      everybody in this generation: verdicts, notes, hashes
 *   same     holders of this rank's part of the model: sums of gradients
 *   inside   of a group: those on this rank's machine
 *   outside  of a group: one of each machine
 *
 * As yet every rank holds all of the model, and `same` is `all` itself. Inside and outside are made
 * for whoever crosses machines in two levels (coll/coll_hier.c, exchange/two_level.c).
 *
 * What is to come fits in here, with its first user. Pipelines: members lie so that parts of a
 * layer are next to each other, then the stages of a replica; `same` is then every (stages x
 * parts)-th member, and two more groups are made: the line of stages of a replica, and the parts of
 * a layer. Servers: ranks that hold no part; they stand behind the workers, and are in `all` alone.
 *
 * Ids are given here and nowhere else. Two groups that have members in common never have the same:
 * an id is the path to its group, two bits a step.
 *
 *   bits 1..0   0 all, 1 same, 2 the line of stages, 3 the parts of a layer (1 to 3: to come)
 *   bits 3..2   0, or of that group: 1 its inside, 2 its outside;  5..4 and 7..6: of that, again
 *
 * The leader keeps log, config and checkpoints: one rank that all know, the lowest member unless
 * another was asked for. It is no other rank in any other respect. Nobody else says rank 0 but to
 * mean the first.
 *
 * The arena of a generation has all that belongs to its groups: the groups, what collectives and
 * exchanges keep for them, memory in common with others. An exchange lets go of it in `close`;
 * others that hold more than memory there say so by weir_arena_later. So the next generation begins
 * with nothing of the last, however often groups change. What outlives a generation (parameters,
 * what is held back) lies elsewhere. Groups change in this order, on the comm task:
 *
 *   hand_over and close   of the exchange (exchange.h)
 *   weir_mesh_renew       on those who are in the next generation, weir_mesh_close on the others
 *   weir_coll_open        and the memory in which it sums gradients, from the new arena
 *   regroup               of the exchange */
#ifndef WEIR_NET_MESH_H
#define WEIR_NET_MESH_H
#include "net/net.h"

typedef struct weir_mesh {
    weir_net *net;
    weir_arena *arena; /* of this generation; NULL: this rank is in none */
    weir_group all, *same;
    int asked; /* the rank that was asked to lead; -1: none was */
    /* where collectives of all generations are recorded (coll/flight.h); NULL: nowhere */
    struct weir_flight *flight;
} weir_mesh;

/* Everybody, in the net's generation. */
weir_err weir_mesh_open(weir_mesh *, weir_net *);
/* On the comm task: what was of the last generation goes, the latest first; the net follows
 * (weir_net_renew) and groups are made of these members, this rank among them. `members` lies
 * elsewhere. On an error there are no groups. Also for one that comes back after weir_mesh_close.
 */
weir_err weir_mesh_renew(weir_mesh *, int generation, const int *members, int count);
/* On the comm task: this rank is in no group any more. Again, or never opened: nothing happens. */
void weir_mesh_close(weir_mesh *);
/* From now on this rank leads, in every generation that it is in; -1: the lowest. The same on all
 * members. */
weir_err weir_mesh_lead(weir_mesh *, int rank);
/* From now on collectives are recorded there, in every generation that this rank is in. */
void weir_mesh_record(weir_mesh *, struct weir_flight *);

/* The members of a group, machine by machine. */
typedef struct weir_machines {
    int count;               /* of machines, in the order in which members meet them */
    bool equal;              /* all have as many members */
    int *machine, *position; /* by member: its machine, and which one of that machine's it is */
    int *first;              /* by machine: where its members begin in `table`; and where all end */
    int *table;
    weir_group inside; /* the members of this one's machine */
    /* one of each machine: the i-th ones where all have equally many, else the first ones; of size
     * 0 where this one is none of them */
    weir_group outside;
} weir_machines;
/* each: so many members in a row are taken for a machine; 0: as they lie. WEIR_MISFIT: it is three
 * levels deep already. */
weir_err weir_mesh_machines(const weir_group *, int64_t each, weir_arena *, weir_machines *);
/* The member that is `position`-th on a machine; how many are. */
static inline int weir_machines_member(const weir_machines *m, int machine, int position)
{
    return m->table[m->first[machine] + position];
}
static inline int weir_machines_size(const weir_machines *m, int machine)
{
    return m->first[machine + 1] - m->first[machine];
}
#endif
