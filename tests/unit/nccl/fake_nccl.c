/* What passes for NCCL's library: its logger, and where it shows one its version. */

void fake_log(void);
int ncclGetVersion(int *version);

void fake_log(void)
{
}

#ifdef SHOWN
int ncclGetVersion(int *version)
{
	*version = 22304;
	return 0;
}
#endif
