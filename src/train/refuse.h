/* refuse.h - settings that cannot work together.
 *
 * One function refuses, for all axes, and it sees all facts: what variants say of themselves in
 * their descriptors and by their options, never their names. Whatever the user asks for is refused
 * here, in one sentence (exit 16), or trains: there is no third state (tests/test_refuse.c). What
 * one variant's own options cannot be is that variant's to say. */
#ifndef WEIR_TRAIN_REFUSE_H
#define WEIR_TRAIN_REFUSE_H
#include "exchange/exchange.h"
#include "nn/model.h"
#include "train/settings.h"

typedef struct weir_facts {
    const weir_settings *set; /* as the user wrote them */
    bool trains;              /* its numbers are wanted: it is no benchmark */
    weir_net_facts net;
    int ranks; /* 0: not known yet */
    const weir_exchange *exchange;
    weir_exchange_facts options; /* what its options make of it */
    const weir_codec *codec;
    const weir_feedback *feedback; /* its options; NULL: floats as they are */
    const weir_optim *optim;
    bool momentum;          /* the optimiser has one */
    bool elastic;           /* the run goes on when workers are lost: wanted, and possible */
    weir_model_facts model; /* empty: not known yet */
} weir_facts;

/* What the specs say: all but ranks and model. What it points to lies in the arena. */
weir_err weir_facts_read(const weir_settings *, weir_arena *, weir_facts *);
/* WEIR_MISFIT, names the options that do not fit and says why; or WEIR_OK. */
weir_err weir_refuse(const weir_facts *);
#endif
