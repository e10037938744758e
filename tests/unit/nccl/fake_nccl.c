/* What passes for NCCL's library: its logger, where it shows one its version, and what only RCCL has. */

void fake_log(void);
int ncclGetVersion(int *version);
void mscclLoadAlgo(void);

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

#ifdef RCCL
void mscclLoadAlgo(void)
{
}
#endif
