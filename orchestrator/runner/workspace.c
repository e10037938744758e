/* Copies a job's code and installs its packages. */
#include "orchestrator/runner/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/runner/tail.h"
#include "reduction_server/base/printable.h"

#define SETUP_LOG "logs/setup.log"
#define CAUSE_MAX 200

/* The directory that tools write to, the agent that runs them, and where is told of them. */
struct workspace {
	const struct smd_jobdir *dir;
	const char *agent;
	FILE *words;
};

/* A program that the agent runs, and what it has said of its failure. */
struct tool {
	const char *name;
	char *const *argv;
	char *cause;  /* NULL: nothing */
	size_t begin; /* where its output begins in the log */
};

/* `argv` begins with the agent's own words. */
static _Noreturn void become_tool(const struct workspace *place, char *const *argv)
{
	FILE *file = smd_jobdir_open_file(place->dir, SETUP_LOG, 1);
	int log = file ? fileno(file) : -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
		_exit(EXIT_FAILURE);
	}
	fcntl(STDOUT_FILENO, F_SETFL, O_APPEND); /* programs expect blocking writes */
	execv(place->agent, argv);
	dprintf(STDERR_FILENO, "%s: %s\n", place->agent, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* Says how a tool failed and where its output is. */
static int tool_failed(
	const struct tool *tool, int status, const char *log, struct smd_error *error)
{
	if (WIFSIGNALED(status)) {
		return smd_error_set(error, ECHILD, "%s: killed by signal %d (%s); output in %s",
			tool->name, WTERMSIG(status), strsignal(WTERMSIG(status)), log);
	}
	return smd_error_set(error, ECHILD, "%s: failed with status %d%s%s; output in %s",
		tool->name, WEXITSTATUS(status), tool->cause ? ": " : "",
		tool->cause ? tool->cause : "", log);
}

/* Whether pip says there what to read or to think, and not what has failed. */
static int is_remark(const char *line)
{
	static const char *const starts[] = {
		"note:", "hint:", "WARNING:", "[notice]", "\xc3\x97", "\xe2\x95\xb0"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (strncmp(line, starts[i], strlen(starts[i])) == 0) {
			return 1;
		}
	}
	return *line == '\0';
}

static const char *without_indent(const char *line)
{
	return line ? line + strspn(line, " \t") : "";
}

/* The last line that tells of a failure: of a program that pip has run, its own. NULL: none. */
static const char *find_cause(const struct smd_tail *tail)
{
	const char *cause = NULL;

	for (size_t i = 0; i < SMD_TAIL_LINES; i++) {
		const char *line = without_indent(smd_tail_line(tail, i));

		if (cause && strcmp(line, "[end of output]") == 0) {
			return cause;
		}
		cause = is_remark(line) ? cause : line;
	}
	return cause;
}

static char *cause_of(const struct smd_tail *tail)
{
	const char *line = find_cause(tail);
	char *cause = line ? strndup(line, CAUSE_MAX) : NULL;

	if (cause) {
		smd_printable(cause);
	}
	return cause;
}

/* The last lines of its output, for people, and the one that tells most. */
static void show_last_lines(const struct workspace *place, struct tool *tool)
{
	struct smd_tail tail = {.count = 0};
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	FILE *log = smd_jobdir_read_file(place->dir, SETUP_LOG, &size);

	if (!log) {
		return;
	}
	fseeko(log, (off_t)tool->begin, SEEK_SET);
	size = 0;
	while ((length = getline(&line, &size, log)) > 0) {
		smd_tail_add(&tail, line, (size_t)length);
	}
	fclose(log);
	free(line);
	if (tail.count > 0) {
		fprintf(place->words, "The last lines of %s:\n", SETUP_LOG);
		smd_tail_print(&tail, place->words, "    ");
		fflush(place->words);
	}
	tool->cause = cause_of(&tail);
	smd_tail_clear(&tail);
}

static size_t log_size(const struct workspace *place)
{
	size_t size = 0;
	FILE *log = smd_jobdir_read_file(place->dir, SETUP_LOG, &size);

	if (log) {
		fclose(log);
	}
	return log ? size : 0;
}

/* 0, or -ECHILD with a text when it failed. */
static int run_tool(struct tool *tool, const struct workspace *place, struct smd_error *error)
{
	char *log = smd_jobdir_path(place->dir, SETUP_LOG);
	int status = 0;
	int ret = 0;
	pid_t pid;

	tool->begin = log_size(place);
	pid = log ? fork() : -1;
	if (pid == 0) {
		become_tool(place, tool->argv);
	}
	if (pid < 0) {
		ret = smd_error_set(
			error, errno, "%s: cannot be started: %s", tool->name, strerror(errno));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (!ret && status) {
		show_last_lines(place, tool);
		ret = tool_failed(tool, status, log, error);
		free(tool->cause);
	}
	free(log);
	return ret;
}

static int copy_code(struct smd_workspace *workspace, const struct smd_job *job,
	const struct workspace *place, struct smd_error *error)
{
	char agent[] = "summand-agent", stop[] = "--", cp[] = "cp", all[] = "-a", end[] = "--";
	char *from;
	int ret;

	if (!job->code_dir || strcmp(job->code_dir, ".") == 0) {
		return 0;
	}
	workspace->code = smd_jobdir_path(place->dir, "code");
	if (!workspace->code || asprintf(&from, "%s/.", job->code_dir) < 0) {
		return -ENOMEM;
	}
	ret = smd_jobdir_make_folder(place->dir, "code");
	if (!ret) {
		char *argv[] = {agent, stop, cp, all, end, from, workspace->code, NULL};
		struct tool tool = {.name = cp, .argv = argv};

		ret = run_tool(&tool, place, error);
	}
	free(from);
	return ret;
}

static size_t count_packages(const struct smd_job *job)
{
	size_t count = job->nrequirements + job->nextra_packages;

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		count += job->pools[i].npackage_uris;
	}
	return count;
}

static size_t append(char **argv, size_t count, char *const *words, size_t nwords)
{
	for (size_t i = 0; i < nwords; i++) {
		argv[count++] = words[i];
	}
	return count;
}

/* All pools share one folder: jobs nearly always give them the same packages. */
static int install_packages(struct smd_workspace *workspace, const struct smd_job *job,
	const struct workspace *place, struct smd_error *error)
{
	char agent[] = "summand-agent", stop[] = "--";
	char python[] = "python3", module[] = "-m", pip[] = "pip", install[] = "install";
	char quiet[] = "--disable-pip-version-check", upgrade[] = "--upgrade",
	     target[] = "--target";
	size_t npackages = count_packages(job);
	struct tool tool = {.name = pip};
	size_t count;
	char **argv;
	int ret;

	if (npackages == 0) {
		return 0;
	}
	workspace->packages = smd_jobdir_path(place->dir, "packages");
	if (!workspace->packages) {
		return -ENOMEM;
	}
	char *const head[] = {agent, stop, python, module, pip, install, quiet, upgrade, target,
		workspace->packages};

	fprintf(place->words, "installing %zu package%s with pip\n", npackages,
		npackages == 1 ? "" : "s");
	fflush(place->words);
	argv = calloc(sizeof(head) / sizeof(head[0]) + npackages + 1, sizeof(*argv));
	if (!argv) {
		return -ENOMEM;
	}
	count = append(argv, 0, head, sizeof(head) / sizeof(head[0]));
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		count = append(
			argv, count, job->pools[i].package_uris, job->pools[i].npackage_uris);
	}
	count = append(argv, count, job->requirements, job->nrequirements);
	append(argv, count, job->extra_packages, job->nextra_packages);
	tool.argv = argv;
	ret = run_tool(&tool, place, error);
	free(argv);
	return ret;
}

int smd_workspace_open(struct smd_workspace *workspace, const struct smd_job *job,
	const struct smd_jobdir *dir, const char *agent, FILE *words, struct smd_error *error)
{
	const struct workspace place = {.dir = dir, .agent = agent, .words = words};
	int ret = copy_code(workspace, job, &place, error);

	ret = ret ? ret : install_packages(workspace, job, &place, error);
	if (ret) {
		smd_workspace_close(workspace);
	}
	return ret;
}

void smd_workspace_close(struct smd_workspace *workspace)
{
	free(workspace->code);
	free(workspace->packages);
	*workspace = (struct smd_workspace){0};
}

int smd_workspace_add(const struct smd_workspace *workspace, struct smd_environment *environment)
{
	const char *path = smd_environment_get(environment, "PYTHONPATH");
	char *before;
	int ret;

	if (!workspace->packages) {
		return 0;
	}
	path = path ? path : getenv("PYTHONPATH");
	before = strdup(path ? path : "");
	if (!before) {
		return -ENOMEM;
	}
	ret = smd_environment_set(environment, "PYTHONPATH", "%s%s%s", workspace->packages,
		*before ? ":" : "", before);
	free(before);
	return ret;
}
