/* log.h - what the program says of itself to whoever listens (weir_on_log), by how often a thing
 * happens:
 * error and warn: seldom, for the user; info: once a run or an epoch; trace: once a message.
 * WEIR_DEBUG=warn|info|trace[,net,coll,codec,...] sets the level, and the parts it is for: read
 * when somebody begins to listen, who is also warned of WEIR_* variables that nobody reads. */
#ifndef WEIR_CORE_LOG_H
#define WEIR_CORE_LOG_H
#include "weir.h"

typedef enum { WEIR_LOG_ERROR, WEIR_LOG_WARN, WEIR_LOG_INFO, WEIR_LOG_TRACE } weir_log_level;

bool weir_log_on(weir_log_level, const char *part);
void weir_log(weir_log_level, const char *part, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
