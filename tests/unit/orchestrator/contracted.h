/* A job whose contract a test looks at, and one process of it at a time. */
#ifndef SMD_TESTS_CONTRACTED_H
#define SMD_TESTS_CONTRACTED_H

#include "orchestrator/contract/environment.h"

/* A text that the job may own as far as the compiler is concerned. */
#define TEXT(literal) ((char[]){literal})

struct contracted {
	struct smd_job *job;
	struct smd_placement placement;
	struct smd_contract *contract;
	struct smd_environment environment;
};

/* A job as the page has it: its id is "ab", and its spec is of no interest. */
void contract_job(struct smd_job *job, int workers, int servers, int evaluators);

void contract_open(struct contracted *contracted, struct smd_job *job, int pool, int index);

void contract_close(struct contracted *contracted);

const char *contract_get(const struct contracted *contracted, const char *name);

/* The next process of a contracted's job. */
void contract_next(struct contracted *contracted, int pool, int index, int process);

void contract_expect(
	const struct contracted *contracted, const struct smd_variable *expected, size_t count);

#define EXPECT(contracted, ...)                                                                    \
	contract_expect(contracted, (const struct smd_variable[]){__VA_ARGS__},                    \
		sizeof((const struct smd_variable[]){__VA_ARGS__}) / sizeof(struct smd_variable))
#define IS(name, value)                                                                            \
	{                                                                                          \
		TEXT(name), TEXT(value)                                                            \
	}
#define ABSENT(name)                                                                               \
	{                                                                                          \
		TEXT(name), NULL                                                                   \
	}

#endif
