/* Writes lines to NCCL's logger. */
#include "worker/nccl_plugin/abi/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "reduction_server/base/log.h"
#include "worker/nccl_plugin/abi/version.h"

#define LINE_MAX_BYTES 1200

/* RCCL has a level for errors before that of warnings since ROCm 7.2, whose RCCL is 2.27.7 as that
 * of 7.1 is, which has not. So from the next one on: before, what is too loud by one level is
 * shown, and nothing is lost. */
#define RCCL_WITH_ERRORS 22803

static _Atomic(nccl_logger *) logger;
static _Atomic int levels_added; /* below that of warnings */

static void nccl_log_sink(enum smd_log_level level, const char *component, const char *sentence)
{
	if (level <= SMD_LOG_WARN) {
		smd_nccl_log_warn("%s: %s", component, sentence);
	} else if (level == SMD_LOG_INFO) {
		smd_nccl_log_info(NCCL_SUB_NET, "%s: %s", component, sentence);
	} else {
		smd_nccl_log_write(NCCL_LOG_TRACE, NCCL_SUB_NET, "%s: %s", component, sentence);
	}
}

void smd_nccl_log_open(nccl_logger *log)
{
	if (log && log != logger) {
		levels_added = smd_nccl_is_rccl(log) && smd_nccl_version(log) >= RCCL_WITH_ERRORS;
		logger = log;
	}
	smd_log_set_sink(nccl_log_sink);
}

void smd_nccl_log_write(
	enum nccl_log_level level, unsigned long subsystems, const char *format, ...)
{
	nccl_logger *log = logger;
	char line[LINE_MAX_BYTES];
	va_list args;

	if (!log) {
		return;
	}
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* Before the line NCCL puts "file:line" of a warning, and nothing of an information. */
	log((enum nccl_log_level)((int)level + levels_added), subsystems, "libnccl-net-summand", 0,
		"NET/Summand: %s", line);
}
