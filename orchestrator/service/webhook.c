/* Writes, signs and sends notices. */
#include "orchestrator/service/webhook.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/service/resource.h"
#include "orchestrator/store/notices.h"
#include "reduction_server/base/log.h"
#include "reduction_server/wire/openssl.h"

#define LOOK_US        200000
#define ATTEMPTS_MAX   16 /* with their pauses about five hours */
#define PAUSE_MAX_S    3600
#define ANSWER_MAX     65536 /* of which the status alone counts */
#define TYPE           "job.state_changed"
#define SIGNATURE_SIZE (4 * ((SMD_HMAC_SIZE + 2) / 3) + 1)

/* A notice as it is sent. */
struct notice_message {
	int64_t id;
	unsigned attempts;
	char *body; /* NULL: out of memory */
	char name[64];
	char shown[128]; /* for the log */
};

static json_t *resource_of(const struct smd_stored_job *job)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *resource;

	smd_stored_job_name(name, job);
	resource = json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:o*}", "name", name, "displayName",
		job->display_name, "state", job->state, "createTime", job->create_time, "startTime",
		job->start_time, "endTime", job->end_time, "labels", json_loads(job->labels, 0, NULL));
	if (job->error_message) {
		json_object_set_new(resource, "error",
			json_pack("{s:i, s:s}", "code", job->error_code, "message",
				job->error_message));
	}
	return resource;
}

static void take_notice(void *arg, const struct smd_stored_notice *notice)
{
	struct notice_message *message = arg;
	json_t *body = json_pack("{s:s, s:s, s:o}", "type", TYPE, "timestamp", notice->time, "data",
		resource_of(&notice->job));

	message->id = notice->id;
	message->attempts = notice->attempts;
	message->body = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	snprintf(message->name, sizeof(message->name), "%" PRId64 "-%" PRId64, notice->job.id,
		notice->id);
	snprintf(message->shown, sizeof(message->shown), "%" PRId64 ", %.64s", notice->job.id,
		notice->job.state);
}

/* Of "ID.TIME.BODY". 0 or -ENOMEM. */
static int sign(const struct notice_message *message, const char *secret, int64_t now_s,
	char signature[SIGNATURE_SIZE])
{
	uint8_t hmac[SMD_HMAC_SIZE];
	char *text;
	int length = asprintf(
		&text, "%s.%" PRId64 ".%s", message->name, now_s, message->body);
	int ret = length < 0 ? -ENOMEM : 0;

	if (!ret) {
		ret = smd_openssl_hmac(secret, (const uint8_t *)text, (size_t)length, hmac);
		free(text);
	}
	if (!ret) {
		EVP_EncodeBlock((unsigned char *)signature, hmac, SMD_HMAC_SIZE);
	}
	return ret;
}

/* 0: it was taken. */
static int send_message(const struct smd_webhook *webhook, const struct notice_message *message,
	int64_t now_s, struct smd_error *error)
{
	struct smd_exchange exchange = {.method = "POST",
		.body = message->body,
		.body_length = strlen(message->body),
		.answer_max = ANSWER_MAX};
	char signature[SIGNATURE_SIZE];
	char headers[256];
	int ret = sign(message, webhook->secret, now_s, signature);

	if (ret) {
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	snprintf(headers, sizeof(headers),
		"webhook-id: %s\r\nwebhook-timestamp: %" PRId64 "\r\nwebhook-signature: v1,%s\r\n",
		message->name, now_s, signature);
	exchange.headers = headers;
	ret = smd_exchange(&webhook->url, &webhook->reach, &exchange, error);
	free(exchange.answer);
	if (!ret && (exchange.status < 200 || exchange.status > 299)) {
		ret = smd_error_set(error, EREMOTEIO, "%s: must answer 2xx, answered %d",
			webhook->url.authority, exchange.status);
	}
	return ret;
}

static int64_t pause_after(unsigned attempts)
{
	int64_t pause_s = attempts < 12 ? (int64_t)1 << attempts : PAUSE_MAX_S;

	return pause_s < PAUSE_MAX_S ? pause_s : PAUSE_MAX_S;
}

/* Its row is gone once it has been taken: a sender that is killed between the two tells it again.
 */
static int tell(const struct smd_webhook *webhook, struct smd_store *store,
	const struct notice_message *message, struct smd_error *error)
{
	struct smd_error reason = {""};
	int64_t now_s = (int64_t)time(NULL);

	if (send_message(webhook, message, now_s, &reason) == 0) {
		return smd_notices_remove(store, message->id, error);
	}
	if (message->attempts + 1 >= ATTEMPTS_MAX) {
		smd_log(SMD_LOG_WARN, "webhook", "%s: given up: %s", message->shown, reason.text);
		return smd_notices_remove(store, message->id, error);
	}
	smd_log(SMD_LOG_INFO, "webhook", "%s: again in %" PRId64 " s: %s", message->shown,
		pause_after(message->attempts), reason.text);
	return smd_notices_delay(store, message->id,
		(int64_t)time(NULL) + pause_after(message->attempts), error);
}

/* 1: there was one. */
static int tell_next(
	const struct smd_webhook *webhook, struct smd_store *store, struct smd_error *error)
{
	struct notice_message message = {.body = NULL};
	int ret = smd_notices_next(store, (int64_t)time(NULL), take_notice, &message, error);

	if (ret > 0) {
		int told = message.body ? tell(webhook, store, &message, error)
					: smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

		ret = told ? told : ret;
	}
	free(message.body);
	return ret;
}

int smd_webhook_run(
	const struct smd_webhook *webhook, const char *state_dir, struct smd_error *error)
{
	struct smd_store *store;
	int ret = smd_store_open(state_dir, &store, error);

	if (ret) {
		return ret;
	}
	do {
		ret = tell_next(webhook, store, error);
		if (ret == 0) {
			usleep(LOOK_US);
		}
	} while (ret >= 0);
	smd_store_close(store);
	return ret;
}
