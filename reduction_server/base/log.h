/*
 * One log line on standard error: `level component: sentence`.
 *
 * The first function that detects a failure logs it; callers pass it up. Level by volume: error and
 * warn for what somebody must look at, info for a handful of lines per process, debug for one per
 * object. Nothing on the data path logs. SUMMAND_LOG=error|warn|info|debug chooses what is shown
 * (default info; libsummand's default is warn, because it is a guest in somebody's program).
 * Lines of several threads never mix: each is one write(2).
 */
#ifndef SMD_BASE_LOG_H
#define SMD_BASE_LOG_H

enum smd_log_level { SMD_LOG_ERROR, SMD_LOG_WARN, SMD_LOG_INFO, SMD_LOG_DEBUG };

/* Sets what is shown when SUMMAND_LOG does not say. Call before any thread is started. */
void smd_log_set_default(enum smd_log_level level);

/* Whether a line of that level would be shown. */
int smd_log_enabled(enum smd_log_level level);

/*
 * From now on lines go to the sink instead, whatever their level and SUMMAND_LOG: a guest in a
 * program with a log of its own. The sink may be called by several threads at once. NULL: standard
 * error again.
 */
typedef void smd_log_sink(enum smd_log_level level, const char *component, const char *sentence);
void smd_log_set_sink(smd_log_sink *sink);

void smd_log(enum smd_log_level level, const char *component, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
