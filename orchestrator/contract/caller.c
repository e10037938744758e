/* The variables that launchers and clouds set, in one table. */
#include "orchestrator/contract/caller.h"

#include <string.h>

#define SHELL_WIDTH 80

enum rule {
	EXACT,   /* the variable of that name */
	PREFIX,  /* all that begin so */
	PASSES,  /* begin so, and are settings of a user nevertheless */
	SERVERS, /* the variable of that name, unless it names servers that are not the job's */
};

/* The first row that fits a name decides. */
static const struct {
	enum rule rule;
	const char *name;
} table[] = {
	/* PyTorch's env://, and torchrun's */
	{EXACT, "MASTER_ADDR"},
	{EXACT, "MASTER_PORT"},
	{EXACT, "RANK"},
	{EXACT, "WORLD_SIZE"},
	{EXACT, "NODE_RANK"},
	{EXACT, "LOCAL_RANK"},
	{EXACT, "LOCAL_WORLD_SIZE"},
	{EXACT, "GROUP_RANK"},
	{EXACT, "GROUP_WORLD_SIZE"},
	{EXACT, "ROLE_NAME"},
	{EXACT, "ROLE_RANK"},
	{EXACT, "ROLE_WORLD_SIZE"},
	{PASSES, "PET_LOG_DIR"},
	{PASSES, "PET_REDIRECTS"},
	{PASSES, "PET_TEE"},
	{PREFIX, "PET_"},
	{PREFIX, "TORCHELASTIC_"},
	/* DeepSpeed's launcher, Lightning's, and those of machines for them */
	{EXACT, "CROSS_RANK"},
	{EXACT, "CROSS_SIZE"},
	{EXACT, "LOCAL_SIZE"},
	{EXACT, "NNODES"},
	{EXACT, "NPROC_PER_NODE"},
	{EXACT, "PL_IN_DDP_SUBPROCESS"},
	{EXACT, "SM_TRAINING_ENV"},
	{EXACT, "DLTS_JOB_ID"},
	{EXACT, "DLTS_NUM_WORKER"},
	/* horovodrun */
	{EXACT, "HOROVOD_RANK"},
	{EXACT, "HOROVOD_SIZE"},
	{EXACT, "HOROVOD_LOCAL_RANK"},
	{EXACT, "HOROVOD_LOCAL_SIZE"},
	{EXACT, "HOROVOD_CROSS_RANK"},
	{EXACT, "HOROVOD_CROSS_SIZE"},
	{EXACT, "HOROVOD_HOSTNAME"},
	{EXACT, "HOROVOD_CONTROLLER"},
	{EXACT, "HOROVOD_CPU_OPERATIONS"},
	{EXACT, "HOROVOD_GLOO_IFACE"},
	{EXACT, "HOROVOD_ELASTIC"},
	{PREFIX, "HOROVOD_GLOO_RENDEZVOUS_"},
	/* mpirun of Open MPI: its own parameters are a user's too, those of its daemons are not */
	{PREFIX, "OMPI_MCA_ess"},
	{PREFIX, "OMPI_MCA_orte_"},
	{PREFIX, "OMPI_MCA_prte_"},
	{EXACT, "OMPI_MCA_pmix"},
	{EXACT, "OMPI_MCA_initial_wdir"},
	{PASSES, "OMPI_MCA_"},
	{PASSES, "OMPI_ALLOW_RUN_AS_ROOT"},
	{PREFIX, "OMPI_"},
	{PREFIX, "PRTE_MCA_ess"},
	{EXACT, "PRTE_LAUNCHED"},
	{PASSES, "PMIX_MCA_"},
	{PREFIX, "PMIX_"},
	/* mpirun of MPICH, Intel MPI, MVAPICH, HPE's and IBM's */
	{PREFIX, "PMI_"},
	{PREFIX, "PMI2_"},
	{EXACT, "HYDI_CONTROL_FD"},
	{EXACT, "MPI_LOCALNRANKS"},
	{EXACT, "MPI_LOCALRANKID"},
	{PREFIX, "MV2_COMM_WORLD_"},
	{PREFIX, "MVP_COMM_WORLD_"},
	{EXACT, "MPIRUN_RANK"},
	{EXACT, "MPIRUN_NPROCS"},
	{EXACT, "MPT_LRANK"},
	{EXACT, "MP_CHILD"},
	/* jsrun, Cray's PALS and aprun, Flux: of a process; what the allocation is, passes */
	{PREFIX, "JSM_NAMESPACE_"},
	{EXACT, "PALS_RANKID"},
	{EXACT, "PALS_NODEID"},
	{EXACT, "PALS_LOCAL_RANKID"},
	{EXACT, "PALS_LOCAL_SIZE"},
	{EXACT, "PALS_APID"},
	{EXACT, "ALPS_APP_PE"},
	{PREFIX, "FLUX_TASK_"},
	{EXACT, "FLUX_JOB_SIZE"},
	{EXACT, "FLUX_JOB_NNODES"},
	/* Slurm: of a task and its step; what the allocation is, passes */
	{EXACT, "SLURM_PROCID"},
	{EXACT, "SLURM_LOCALID"},
	{EXACT, "SLURM_NODEID"},
	{EXACT, "SLURM_GTIDS"},
	{EXACT, "SLURM_TASK_PID"},
	{EXACT, "SLURM_NTASKS"},
	{EXACT, "SLURM_NPROCS"},
	{EXACT, "SLURM_NTASKS_PER_NODE"},
	{EXACT, "SLURM_TASKS_PER_NODE"},
	{EXACT, "SLURM_STEPID"},
	{PREFIX, "SLURM_STEP_"},
	{PREFIX, "SLURM_SRUN_COMM_"},
	{EXACT, "SLURM_LAUNCH_NODE_IPADDR"},
	/* JAX, also in an indexed job of Kubernetes; XLA for PyTorch; dmlc */
	{EXACT, "JAX_COORDINATOR_ADDRESS"},
	{EXACT, "JAX_COORDINATOR_BIND_ADDRESS"},
	{EXACT, "JAX_COORDINATOR_PORT"},
	{EXACT, "JAX_NUM_PROCESSES"},
	{EXACT, "JAX_PROCESS_COUNT"},
	{EXACT, "JAX_PROCESS_ID"},
	{EXACT, "JAX_PROCESS_INDEX"},
	{EXACT, "JAX_LOCAL_DEVICE_IDS"},
	{EXACT, "JOB_COMPLETION_INDEX"},
	{EXACT, "PJRT_LOCAL_PROCESS_RANK"},
	{EXACT, "PJRT_LOCAL_PROCESS_COUNT"},
	{EXACT, "PJRT_DIST_SERVICE_ADDR"},
	{EXACT, "DMLC_ROLE"},
	{EXACT, "DMLC_TASK_ID"},
	{PREFIX, "DMLC_PS_ROOT_"},
	{PREFIX, "DMLC_NUM_"},
	{PREFIX, "DMLC_TRACKER_"},
	/* TensorFlow and Vertex AI */
	{EXACT, "TF_CONFIG"},
	{EXACT, "CLUSTER_SPEC"},
	{PREFIX, "AIP_"},
	{PREFIX, "CLOUD_ML_"},
	/* Azure ML; AZURE_* are a user's accounts */
	{PREFIX, "AZUREML_"},
	{PREFIX, "AZ_BATCH"},
	{EXACT, "CCP_NODES"},
	{EXACT, "NODE_COUNT"},
	{EXACT, "GPU_PER_NODE_COUNT"},
	/* Summand's own; SUMMAND_LOG and the like are settings */
	{EXACT, "SUMMAND_JOB_ID"},
	{EXACT, "SUMMAND_REPLICA"},
	{EXACT, "SUMMAND_PROCESS"},
	{PREFIX, "SUMMAND_MPI_"},
	{EXACT, "SUMMAND_OUTPUT_DIR"},
	{EXACT, "SUMMAND_SERVERS_FILE"},
	{EXACT, "SUMMAND_RESTARTS"},
	{EXACT, "SUMMAND_ATTEMPT"},
	{EXACT, "SUMMAND_NOTIFY_FD"},
	{SERVERS, "SUMMAND_REDUCTION_SERVERS"},
	{SERVERS, "SUMMAND_TOKEN_FILE"},
	{SERVERS, "SUMMAND_TLS"},
	{EXACT, "NCCL_SOCKET_IFNAME"},
	{EXACT, "GLOO_SOCKET_IFNAME"},
};

/* What a launcher would never set, a shell could not unset either. */
static int is_identifier(const char *text, const char *end)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789_";

	return text + strspn(text, characters) == end;
}

static int fits(enum rule rule, const char *name, const char *variable)
{
	size_t length = strlen(name);
	const char *end = strchr(variable, '=');

	if (!end || strncmp(name, variable, length) != 0) {
		return 0;
	}
	return rule == PREFIX || rule == PASSES ? is_identifier(variable, end)
						: variable + length == end;
}

static int is_replica(char *const *caller)
{
	for (; *caller; caller++) {
		if (strncmp(*caller, "SUMMAND_REPLICA=", sizeof("SUMMAND_REPLICA=") - 1) == 0) {
			return 1;
		}
	}
	return 0;
}

int smd_caller_withholds(
	char *const *caller, const char *variable, const struct smd_environment *environment)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!fits(table[i].rule, table[i].name, variable)) {
			continue;
		}
		return table[i].rule == SERVERS ? environment->has_servers || is_replica(caller)
						: table[i].rule != PASSES;
	}
	return 0;
}

/* 0: kept, 1: passed on. */
static int shell_status(enum rule rule, int has_servers)
{
	return rule == PASSES || (rule == SERVERS && !has_servers);
}

/* Rows that follow each other and end alike are one pattern, in lines of bounded length. */
void smd_caller_print_case(int has_servers, FILE *out)
{
	size_t nrows = sizeof(table) / sizeof(table[0]);
	size_t width = 0;

	fputs("\tcase $1 in\n\t", out);
	for (size_t i = 0; i < nrows; i++) {
		int status = shell_status(table[i].rule, has_servers);
		int begins = table[i].rule == PREFIX || table[i].rule == PASSES;

		width += (size_t)fprintf(out, "%s%s", table[i].name, begins ? "*" : "");
		if (i + 1 < nrows && shell_status(table[i + 1].rule, has_servers) == status) {
			fputs(width > SHELL_WIDTH ? " | \\\n\t\t" : " | ", out);
			width = width > SHELL_WIDTH ? 0 : width + 3;
		} else {
			fprintf(out, ") return %d ;;\n\t", status);
			width = 0;
		}
	}
	fputs("*) return 1 ;;\n\tesac\n", out);
}

int smd_caller_servers(
	char *const *caller, const struct smd_environment *environment, const char **out)
{
	static const char name[] = "SUMMAND_REDUCTION_SERVERS";
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789-_.:,[]%";

	for (size_t i = 0; caller[i]; i++) {
		if (fits(EXACT, name, caller[i]) && !smd_environment_get(environment, name) &&
			!smd_caller_withholds(caller, caller[i], environment)) {
			*out = caller[i] + sizeof(name);
			return (int)strspn(*out, characters);
		}
	}
	return 0;
}
