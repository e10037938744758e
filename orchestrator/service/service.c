/* Opens all that the service is made of, and runs its loop. */
#include "orchestrator/service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/figures.h"
#include "orchestrator/service/sender.h"
#include "orchestrator/service/spawn.h"
#include "orchestrator/service/terminals.h"
#include "orchestrator/store/notices.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/log.h"
#include "reduction_server/metrics/endpoint.h"
#include "reduction_server/transport/address.h"

#define LOCK_NAME    "service"
#define LOCK_MODE    0600
#define LOCK_TRIES   40
#define LOCK_WAIT_US 50000
#define TICK_US      200000
#define TIDY_S       5

static const int watched[] = {SIGINT, SIGTERM, SIGCHLD};

#define WATCHED (sizeof(watched) / sizeof(watched[0]))

struct open_service {
	const struct smd_service_options *options;
	char *state_dir;
	int lock_fd;
	struct smd_store *store;
	struct smd_catalogue *catalogue;
	struct smd_desk desk;
	struct event_base *base;
	struct event *signals[WATCHED];
	struct event *tick;
	unsigned ticks;
	struct smd_http *http;
	struct smd_sender sender;
	struct smd_figure_sources figures;
	struct smd_metrics_endpoint *metrics;
};

/* ---- events ---- */

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct open_service *service = arg;

	(void)what;
	if (signo == SIGCHLD) {
		smd_sender_reap(&service->sender);
		smd_scheduler_reap(service->desk.scheduler);
	} else {
		event_base_loopbreak(service->base);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct open_service *service = arg;

	(void)fd;
	(void)what;
	smd_job_remove_again(&service->desk);
	smd_terminals_turn(service->desk.terminals);
	smd_scheduler_turn(service->desk.scheduler);
	smd_sender_keep(&service->sender);
	if (++service->ticks % (TIDY_S * 1000000 / TICK_US) == 0) {
		smd_http_tidy(service->http);
	}
}

static void on_turn(void *arg)
{
	smd_batch_write(arg);
}

/* ---- opening, in the order of closing ---- */

/* A child that a killed service has just forked has its lock until it executes a runner. */
static int take_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int ret = fcntl(fd, F_OFD_SETLK, &lock);

	for (int i = 0; ret && (errno == EAGAIN || errno == EACCES) && i < LOCK_TRIES; i++) {
		usleep(LOCK_WAIT_US);
		ret = fcntl(fd, F_OFD_SETLK, &lock);
	}
	return ret;
}

/* The lock's file has its address. */
static int tell_other(const struct open_service *service, struct smd_error *error)
{
	char address[256];
	ssize_t length = pread(service->lock_fd, address, sizeof(address) - 1, 0);

	address[length > 0 ? length : 0] = '\0';
	address[strcspn(address, "\n")] = '\0';
	return smd_error_set(error, EBUSY, "%s: must be free, and another service has it%s%s",
		service->state_dir, *address ? ", which listens on " : "", address);
}

/* Of two services each would start runners of its own for the same jobs. */
static int lock_state_dir(struct open_service *service, struct smd_error *error)
{
	char *path = NULL;
	int ret = 0;

	if (asprintf(&path, "%s/" LOCK_NAME, service->state_dir) < 0) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	service->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, LOCK_MODE);
	if (service->lock_fd < 0) {
		ret = smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	} else if (take_lock(service->lock_fd)) {
		ret = errno == EAGAIN || errno == EACCES
			      ? tell_other(service, error)
			      : smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	free(path);
	return ret;
}

/* Where clients on this machine find the service. */
static void write_address(const struct open_service *service)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%s://%s\n",
		service->options->http.tls_cert ? "https" : "http",
		smd_http_address(service->http));

	if (ftruncate(service->lock_fd, 0) ||
		pwrite(service->lock_fd, line, (size_t)length, 0) < 0) {
		smd_log(SMD_LOG_WARN, "service", "%s/" LOCK_NAME ": %s", service->state_dir,
			strerror(errno));
	}
	printf("summand serve: listening on %s", line);
	fflush(stdout);
}

/* What is noted down is told by whoever has the webhook next. */
static int open_notices(struct open_service *service, struct smd_error *error)
{
	service->sender.words = service->options->sender_words;
	return smd_notices_want(service->store, service->sender.words != NULL, error);
}

static int open_desk(struct open_service *service, struct smd_error *error)
{
	struct smd_desk *desk = &service->desk;
	int ret = smd_store_open(service->state_dir, &service->store, error);

	ret = ret ? ret : open_notices(service, error);
	ret = ret ? ret : smd_catalogue_load(NULL, &service->catalogue, error);
	ret = ret ? ret
		  : smd_scheduler_open(service->store, service->options, &desk->scheduler, error);
	if (!ret && smd_batch_open(&desk->batch)) {
		ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	desk->state_dir = service->state_dir;
	desk->scheme = service->options->http.tls_cert ? "https" : "http";
	desk->store = service->store;
	desk->rules = (struct smd_intake_rules){.catalogue = service->catalogue,
		.images = service->options->images,
		.runs_images = service->options->runs_images,
		.secrets_folder = service->options->secrets_folder};
	return ret;
}

static int open_loop(struct open_service *service, struct smd_error *error)
{
	const struct timeval period = {.tv_usec = TICK_US};

	service->base = event_base_new();
	if (!service->base) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	for (size_t i = 0; i < WATCHED; i++) {
		service->signals[i] = evsignal_new(service->base, watched[i], on_signal, service);
		if (!service->signals[i] || event_add(service->signals[i], NULL)) {
			return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		}
	}
	service->tick = event_new(service->base, -1, EV_PERSIST, on_tick, service);
	if (!service->tick || event_add(service->tick, &period)) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	return 0;
}

/* In the same loop: figures need no lock. */
static int open_metrics(struct open_service *service, struct smd_error *error)
{
	const struct smd_access *access = &service->options->http.access;
	int ret;

	if (!service->options->metrics) {
		return 0;
	}
	service->figures = (struct smd_figure_sources){
		.http = service->http, .scheduler = service->desk.scheduler,
		.store = service->store};
	ret = smd_metrics_open(service->base, service->options->metrics, smd_figures_write,
		&service->figures, &service->metrics, error);
	if (ret) {
		return ret;
	}
	smd_metrics_name(service->metrics, access->hosts, access->nhosts);
	smd_log(SMD_LOG_INFO, "service", "metrics: http://%s/metrics",
		smd_metrics_address(service->metrics));
	if (smd_address_stays_here(smd_metrics_address(service->metrics), error) == 0) {
		smd_log(SMD_LOG_WARN, "service",
			"metrics: whoever reaches %s reads ids of jobs and names of replicas, and "
			"needs no token",
			smd_metrics_address(service->metrics));
	}
	return 0;
}

static int open_service(struct open_service *service, struct smd_error *error)
{
	int ret = smd_state_dir_open(&service->state_dir, error);

	ret = ret ? ret : lock_state_dir(service, error);
	ret = ret ? ret : open_desk(service, error);
	ret = ret ? ret : open_loop(service, error);
	if (!ret && smd_terminals_open(&service->desk.terminals, service->base)) {
		ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = ret ? ret
		  : smd_http_open(service->base, &service->options->http, smd_desk_handle, on_turn,
			    &service->desk, &service->http, error);
	return ret ? ret : open_metrics(service, error);
}

static void close_loop(struct open_service *service)
{
	for (size_t i = 0; i < WATCHED; i++) {
		if (service->signals[i]) {
			event_free(service->signals[i]);
		}
	}
	if (service->tick) {
		event_free(service->tick);
	}
	if (service->base) {
		event_base_free(service->base);
	}
}

static void close_service(struct open_service *service)
{
	smd_sender_end(&service->sender);
	smd_terminals_close(service->desk.terminals);
	smd_metrics_close(service->metrics);
	if (service->http) {
		smd_http_close(service->http);
	}
	close_loop(service);
	smd_batch_close(service->desk.batch);
	if (service->desk.scheduler) {
		smd_scheduler_close(service->desk.scheduler);
	}
	smd_catalogue_free(service->catalogue);
	smd_store_close(service->store);
	if (service->lock_fd >= 0) {
		close(service->lock_fd);
	}
	free(service->state_dir);
}

int smd_service_run(const struct smd_service_options *options, struct smd_error *error)
{
	struct open_service *service = calloc(1, sizeof(*service));
	int ret;

	if (!service) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	service->options = options;
	service->lock_fd = -1;
	signal(SIGPIPE, SIG_IGN);
	smd_spawn_lift_limits();
	ret = open_service(service, error);
	if (!ret) {
		write_address(service);
		event_base_dispatch(service->base);
		smd_log(SMD_LOG_INFO, "service", "ends; jobs that run go on");
	}
	close_service(service);
	free(service);
	return ret;
}
