/*
 * Lanes over TLS beside what every lane does (test_lane): who is let in, what a wire sees of them,
 * and what becomes of one that changes or cuts them.
 */
#include "tests/unit/transport/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/tcp/tls_lane.h"
#include "tests/unit/transport/relay.h"

static struct tcp_tls *tls_of(const struct end *end)
{
	return ((struct tcp_lane *)end->lane)->tls;
}

static int raw_connect(const struct link *link)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(strrchr(link->address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* ---- who is let in ---- */

static void check_stranger(struct link *link, const char *identity, const char *reason)
{
	snprintf(link->key.identity, sizeof(link->key.identity), "%s", identity);
	link_connect(link);
	RUN_UNTIL(link, link->near.closed && link->far.closed);
	assert_int_equal(link->near.opened, 0);
	assert_int_equal(link->near.err, -EACCES);
	assert_string_equal(
		link->near.reason, "TLS: the other end has another token for this job, or none");
	assert_int_equal(link->far.err, -EACCES);
	assert_string_equal(link->far.reason, reason);
}

static void another_secret_is_told_to_both(void **state)
{
	check_stranger(*state, "other", "TLS: its token for the job is another");
}

/* To the end that connects it looks the same, so it cannot ask which jobs there are. */
static void a_name_without_a_secret_is_told_to_the_other_end_only(void **state)
{
	check_stranger(*state, "nobody", "TLS: there is no token here for the job that it names");
}

/* Without a secret OpenSSL would agree by certificates, of which there are none. */
static void an_end_that_offers_no_secret_is_not_let_in(void **state)
{
	struct link *link = *state;

	link_connect(link);
	SSL_set_psk_use_session_callback(tls_of(&link->near)->ssl, NULL);
	RUN_UNTIL(link, link->near.closed && link->far.closed);
	assert_int_equal(link->near.opened, 0);
	assert_int_equal(link->far.headers, 0);
	assert_true(link->far.err == -EPROTO);
}

static void an_end_without_tls_is_told_in_its_language(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	link->encrypted = false; /* the listener is */
	link_connect(link);
	parcel_send(&parcel, &link->near, 0, 100, NULL);
	RUN_UNTIL(link, link->near.frames && link->far.closed);
	assert_int_equal(link->near.frame.kind, SMD_FRAME_REFUSE);
	assert_non_null(strstr((char *)link->near.room + 2, "set SUMMAND_TLS=1"));
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(link->far.reason, "it speaks no TLS, and this end nothing else");
	assert_int_equal(link->far.headers, 0);
	parcels_free(&parcel, 1);
}

static void what_speaks_neither_is_told_nothing(void **state)
{
	struct link *link = *state;
	int fd = raw_connect(link);
	char byte;

	assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
}

static void tls_at_an_end_without_it_is_told(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	link_connect(link);
	assert_int_equal(link->transport->encrypt(link->near.lane, &link_key, &error), 0);
	RUN_UNTIL(link, link->near.closed && link->far.closed);
	assert_int_equal(link->near.err, -EACCES);
	assert_string_equal(link->near.reason,
		"TLS: the other end does not speak it; a reduction server does with --tls");
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(link->far.reason, "it speaks TLS, and this end does not");
}

static void half_a_greeting_is_waited_for(void **state)
{
	struct link *link = *state;
	int fd = raw_connect(link);

	assert_int_equal(write(fd, "\x16\x03\x01\x02\x00\x01", 6), 6);
	RUN_UNTIL(link, link->far.lane && tls_of(&link->far)->ssl);
	link_run_on(link);
	assert_int_equal(link->far.closed, 0);
	close(fd);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -ECONNRESET);
}

static void noise_is_no_greeting(void **state)
{
	struct link *link = *state;
	uint8_t noise[600] = {0x16, 3, 1, 2, 0};
	int fd = raw_connect(link);

	memset(noise + 5, 0xa5, sizeof(noise) - 5);
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	close(fd);
}

/* ---- a false server ---- */

struct impostor {
	int listener;
	int ret; /* of its handshake */
};

static X509 *certificate_of(EVP_PKEY *key)
{
	X509 *certificate = X509_new();

	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_sign(certificate, key, EVP_sha256());
	return certificate;
}

/* It has a certificate, as any server on the web, and not the secret. */
static void *impostor_main(void *arg)
{
	struct impostor *impostor = arg;
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = certificate_of(key);
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	int fd = accept(impostor->listener, NULL, NULL);
	SSL *ssl;

	SSL_CTX_use_certificate(context, certificate);
	SSL_CTX_use_PrivateKey(context, key);
	ssl = SSL_new(context);
	SSL_set_fd(ssl, fd);
	impostor->ret = SSL_accept(ssl);
	SSL_free(ssl);
	close(fd);
	SSL_CTX_free(context);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return NULL;
}

static void a_certificate_takes_the_place_of_no_secret(void **state)
{
	struct link *link = *state;
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct impostor impostor = {.listener = socket(AF_INET, SOCK_STREAM, 0), .ret = -2};
	socklen_t size = sizeof(name);
	pthread_t thread;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(impostor.listener, (struct sockaddr *)&name, size), 0);
	assert_int_equal(listen(impostor.listener, 1), 0);
	getsockname(impostor.listener, (struct sockaddr *)&name, &size);
	snprintf(link->address, sizeof(link->address), "127.0.0.1:%u", ntohs(name.sin_port));
	assert_int_equal(pthread_create(&thread, NULL, impostor_main, &impostor), 0);
	link_connect(link);
	RUN_UNTIL(link, link->near.closed);
	pthread_join(thread, NULL);
	close(impostor.listener);
	assert_int_equal(link->near.opened, 0);
	assert_true(impostor.ret != 1);
}

/* ---- what the wire sees and does ---- */

enum { FRAMES = 12, LENGTH = 100000 };

/* Of a payload that is known, some is on a clear wire and none on this one. */
static bool payload_is_seen(struct link *link)
{
	struct parcel parcel;
	struct relay relay;
	bool seen;

	relay_open(&relay, link->base, link->address);
	link_open(link);
	parcel_send(&parcel, &link->near, 7, LENGTH, NULL);
	RUN_UNTIL(link, link->far.frames == 1);
	end_assert_payload(&link->far);
	assert_true(relay.there.moved > LENGTH);
	seen = relay_has_seen(&relay, parcel.payload, 16) ||
	       relay_has_seen(&relay, parcel.payload + 50000, 16) ||
	       relay_has_seen(&relay, parcel.send.header, 8);
	parcels_free(&parcel, 1);
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	relay_close(&relay);
	return seen;
}

static void the_wire_sees_no_payload(void **state)
{
	assert_false(payload_is_seen(*state));
}

static void without_tls_it_does(void **state)
{
	assert_true(payload_is_seen(*state));
}

/* Sends through a relay that does something on the way. */
static void send_over(struct link *link, struct relay *relay, struct parcel parcels[FRAMES])
{
	link_open(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, LENGTH, NULL);
	}
	RUN_UNTIL(link, link->far.closed || link->far.frames == FRAMES);
	assert_true(relay->there.moved > 0);
}

static void one_changed_bit_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct relay relay;

	relay_open(&relay, link->base, link->address);
	relay.flip_at = 500000;
	send_over(link, &relay, parcels);
	assert_int_equal(link->far.err, -EBADMSG);
	assert_string_equal(link->far.reason, "TLS: a record is not as the other end has sent it");
	assert_in_range(link->far.frames, 1, 5);
	RUN_UNTIL(link, link->near.closed);
	relay_close(&relay);
	parcels_free(parcels, FRAMES);
}

static void a_cut_is_not_taken_for_an_end(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct relay relay;

	relay_open(&relay, link->base, link->address);
	relay.cut_at = 500000;
	send_over(link, &relay, parcels);
	assert_int_equal(link->far.err, -ECONNRESET);
	assert_string_equal(link->far.reason,
		"TLS: the connection was cut: the other end has not said that it ends");
	RUN_UNTIL(link, link->near.closed);
	relay_close(&relay);
	parcels_free(parcels, FRAMES);
}

static void an_end_is_one(void **state)
{
	struct link *link = *state;

	link_open(link);
	link_run_on(link);
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -ECONNRESET);
	assert_string_equal(link->far.reason, "the other end closed the connection");
}

static void check_next(struct end *end)
{
	assert_int_equal(end->frame.ordinal, end->frames - 1);
	end_assert_payload(end);
}

static void pieces_of_any_size_do(void **state)
{
	static const size_t pieces[] = {1, 5, 37};
	struct link *link = *state;

	link->far.then = check_next;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		char address[128];
		struct parcel parcels[3];
		struct relay relay;

		memcpy(address, link->address, sizeof(address));
		relay_open(&relay, link->base, link->address);
		relay.piece = pieces[i];
		link_open(link);
		link->far.frames = 0;
		for (unsigned n = 0; n < 3; n++) {
			parcel_send(&parcels[n], &link->near, n, 2000 * n, NULL);
		}
		RUN_UNTIL(link, link->far.frames == 3);
		end_close(&link->near);
		RUN_UNTIL(link, !link->far.lane);
		relay_close(&relay);
		parcels_free(parcels, 3);
		memcpy(link->address, address, sizeof(address));
		link->near.opened = 0;
	}
}

/* Each end takes a new key after some records, also in the middle of a frame. */
static void keys_are_renewed_on_the_way(void **state)
{
	struct link *link = *state;
	struct parcel near[FRAMES];
	struct parcel far[FRAMES];

	link_open(link);
	link->near.then = check_next;
	link->far.then = check_next;
	tls_of(&link->near)->rekey = 3;
	tls_of(&link->far)->rekey = 2;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&near[i], &link->near, i, 10 * LENGTH, NULL);
		parcel_send(&far[i], &link->far, i, 10 * LENGTH, NULL);
	}
	RUN_UNTIL(link, link->near.frames == FRAMES && link->far.frames == FRAMES);
	assert_in_range(tls_of(&link->near)->records, 0, 3);
	assert_in_range(tls_of(&link->far)->records, 0, 2);
	parcels_free(near, FRAMES);
	parcels_free(far, FRAMES);
}

#define OVER(transport, f)                                                                         \
	cmocka_unit_test_prestate_setup_teardown(f, link_set_up, link_tear_down, (void *)transport)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OVER("tls", another_secret_is_told_to_both),
		OVER("tls", a_name_without_a_secret_is_told_to_the_other_end_only),
		OVER("tls", an_end_that_offers_no_secret_is_not_let_in),
		OVER("tls", an_end_without_tls_is_told_in_its_language),
		OVER("tls", what_speaks_neither_is_told_nothing),
		OVER("tcp", tls_at_an_end_without_it_is_told),
		OVER("tls", half_a_greeting_is_waited_for),
		OVER("tls", noise_is_no_greeting),
		OVER("tls", a_certificate_takes_the_place_of_no_secret),
		OVER("tls", the_wire_sees_no_payload),
		OVER("tcp", without_tls_it_does),
		OVER("tls", one_changed_bit_ends_the_lane),
		OVER("tls", a_cut_is_not_taken_for_an_end),
		OVER("tls", an_end_is_one),
		OVER("tls", pieces_of_any_size_do),
		OVER("tls", keys_are_renewed_on_the_way),
	};

	return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
