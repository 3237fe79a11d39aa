/* notes.c - see notes.h. */
#include "train/notes.h"
#include <signal.h>
#include <string.h>

enum {
    LOSS,
    /* how many workers were told to stop, by which signal */
    INT,
    TERM,
    HUP,
    /* three floats each */
    SENT,
    RECEIVED = SENT + 3,
    LEAVE = RECEIVED + 3,
    GUESTS
};

static void write_bytes(float *at, uint64_t bytes)
{
    for (int i = 0; i < 3; i++)
        at[i] = (float)(bytes >> 14 * i & 0x3fff);
}

static double read_bytes(const float *at)
{
    return (double)at[0] + 16384.0 * ((double)at[1] + 16384.0 * (double)at[2]);
}

void weir_notes_write(const weir_notes *mine, float *note, double *exact)
{
    int stop = mine->stop;

    memset(note, 0, WEIR_EXCHANGE_NOTES * sizeof *note);
    note[LOSS] = (float)mine->loss;
    note[INT] = stop == SIGINT;
    note[HUP] = stop == SIGHUP;
    note[TERM] = stop && stop != SIGINT && stop != SIGHUP;
    note[LEAVE] = mine->leaves;
    note[GUESTS] = mine->guests;
    write_bytes(&note[SENT], mine->sent);
    write_bytes(&note[RECEIVED], mine->received);
    for (int i = 0; i < WEIR_EXCHANGE_NOTES && exact; i++)
        exact[i] = i == LOSS ? mine->loss : (double)note[i];
}

weir_noted weir_notes_read(const float *note)
{
    return (weir_noted){.loss = note[LOSS],
                        .stop = note[TERM] > 0  ? SIGTERM
                                : note[INT] > 0 ? SIGINT
                                : note[HUP] > 0 ? SIGHUP
                                                : 0,
                        .told = (int)(note[INT] + note[TERM] + note[HUP] + 0.5F),
                        .leave = (int)(note[LEAVE] + 0.5F),
                        .guests = (int)(note[GUESTS] + 0.5F),
                        .sent = read_bytes(&note[SENT]),
                        .received = read_bytes(&note[RECEIVED])};
}
