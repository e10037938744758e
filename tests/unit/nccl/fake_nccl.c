/* What passes for NCCL's library: its logger, where it shows one (SHOWN) its version, and what only
 * RCCL has. */

extern int fake_level; /* of the last line */
int fake_level;

void fake_log(
	int level, unsigned long subsystems, const char *file, int line, const char *format, ...);
int ncclGetVersion(int *version);
void mscclLoadAlgo(void);

void fake_log(
	int level, unsigned long subsystems, const char *file, int line, const char *format, ...)
{
	(void)subsystems;
	(void)file;
	(void)line;
	(void)format;
	fake_level = level;
}

#ifdef SHOWN
int ncclGetVersion(int *version)
{
	*version = SHOWN;
	return 0;
}
#endif

#ifdef RCCL
void mscclLoadAlgo(void)
{
}
#endif
