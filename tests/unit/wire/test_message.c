/* The payloads of control frames: what is encoded is decoded, and everything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/handshake.h"

/* Decodes a copy that ends where its memory ends, so that a sanitizer sees a byte read past it. */
#define DECODE(decode, payload, length, out, error)                                                \
	({                                                                                         \
		size_t length_ = (length);                                                         \
		void *exact_ = malloc(length_);                                                    \
		int ret_;                                                                          \
		memcpy(exact_, (payload), length_);                                                \
		ret_ = decode(exact_, length_, (out), (error));                                    \
		free(exact_);                                                                      \
		ret_;                                                                              \
	})

/* Every shorter payload and one byte more are refused, and leave *out alone. */
#define ASSERT_ONLY_WHOLE(decode, type, payload, length, name)                                     \
	do {                                                                                       \
		uint8_t longer_[SMD_CONTROL_MAX + 1] = {0};                                        \
		memcpy(longer_, (payload), (length));                                              \
		for (size_t n_ = 0; n_ <= (length) + 1; n_++) {                                    \
			struct smd_error error_ = {""};                                            \
			struct type out_, before_;                                                 \
			if (n_ == (length)) {                                                      \
				continue;                                                          \
			}                                                                          \
			memset(&out_, 0x5a, sizeof(out_));                                         \
			before_ = out_;                                                            \
			assert_int_equal(DECODE(decode, longer_, n_, &out_, &error_), -EPROTO);    \
			assert_memory_equal(&out_, &before_, sizeof(out_));                        \
			assert_ptr_equal(                                                          \
				strstr(error_.text, name ": payload must be"), error_.text);       \
		}                                                                                  \
	} while (0)

static void fill(char text[SMD_STRING_MAX + 1], char c)
{
	memset(text, c, SMD_STRING_MAX);
	text[SMD_STRING_MAX] = '\0';
}

/* ---- HELLO ---- */

static const struct smd_hello hello = {.nonce = "the nonce has thirty-two bytes..",
	.shard = 0x0304,
	.flags = SMD_HELLO_CALLED,
	.replica = "workerpool1-0",
	.job = "job-7"};

static void hello_bytes(void **state)
{
	static const char expected[] = "the nonce has thirty-two bytes.."
				       "\x04\x03\x01\x00"
				       "\x0d\x00workerpool1-0"
				       "\x05\x00job-7";
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_hello_encode(&hello, payload);

	(void)state;
	assert_int_equal(length, sizeof(expected) - 1);
	assert_memory_equal(payload, expected, length);
}

static void hello_round_trip(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_hello out;

	(void)state;
	assert_int_equal(
		DECODE(smd_hello_decode, payload, smd_hello_encode(&hello, payload), &out, NULL),
		0);
	assert_memory_equal(out.nonce, hello.nonce, sizeof(out.nonce));
	assert_int_equal(out.shard, hello.shard);
	assert_int_equal(out.flags, SMD_HELLO_CALLED);
	assert_string_equal(out.replica, hello.replica);
	assert_string_equal(out.job, hello.job);
}

static void hello_with_the_longest_strings_fits(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_hello longest = {.shard = 1};
	struct smd_hello out;

	(void)state;
	fill(longest.replica, 'r');
	fill(longest.job, 'j');
	assert_int_equal(
		DECODE(smd_hello_decode, payload, smd_hello_encode(&longest, payload), &out, NULL),
		0);
	assert_string_equal(out.replica, longest.replica);
	assert_string_equal(out.job, longest.job);
}

static void hello_must_be_whole(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_hello_encode(&hello, payload);

	(void)state;
	ASSERT_ONLY_WHOLE(smd_hello_decode, smd_hello, payload, length, "HELLO");
}

static void hello_must_have_no_flags_that_are_none(void **state)
{
	struct smd_hello strange = hello;
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error;
	struct smd_hello out;

	(void)state;
	strange.flags = 128;
	assert_int_equal(DECODE(smd_hello_decode, payload, smd_hello_encode(&strange, payload),
				 &out, &error),
		-EPROTO);
}

static void hello_must_name_a_replica(void **state)
{
	const struct smd_hello nameless = {.job = "job"};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	struct smd_hello out;

	(void)state;
	assert_int_equal(DECODE(smd_hello_decode, payload, smd_hello_encode(&nameless, payload),
				 &out, &error),
		-EPROTO);
	assert_string_equal(error.text,
		"HELLO: payload must be as specs/design/wire.md says, got 43 bytes that are not");
}

static void a_string_of_256_bytes_is_refused(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX] = {[37] = 0x01}; /* nonce, shard, flags, length 256 */
	struct smd_hello out;

	(void)state;
	memset(payload + 38, 'r', 256);
	assert_int_equal(
		DECODE(smd_hello_decode, payload, (size_t)38 + 256 + 2, &out, NULL), -EPROTO);
}

/* Names are printed in logs and compared as C strings: no NUL, no escape sequence. */
static void control_characters_in_a_string_are_refused(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_hello_encode(&hello, payload);
	struct smd_hello out;

	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		int bad = c < 0x20 || c == 0x7f;

		payload[40] = (uint8_t)c; /* inside the replica's name */
		assert_int_equal(
			DECODE(smd_hello_decode, payload, length, &out, NULL), bad ? -EPROTO : 0);
	}
}

/* ---- WELCOME ---- */

static const struct smd_welcome welcome = {
	.server_id = 0x1122334455667788,
	.shard = 2,
	.shards = 3,
	.chunk_bytes = 256 << 10,
	.weight = 8333,
};

static void welcome_round_trip(void **state)
{
	static const uint8_t expected[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 0, 0,
		0, 3, 0, 0, 0, 0, 0, 4, 0, 0x8d, 0x20, 0, 0};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_welcome out;

	(void)state;
	assert_int_equal(smd_welcome_encode(&welcome, payload), sizeof(expected));
	assert_memory_equal(payload, expected, sizeof(expected));
	assert_int_equal(DECODE(smd_welcome_decode, payload, sizeof(expected), &out, NULL), 0);
	assert_int_equal(out.server_id, welcome.server_id);
	assert_int_equal(out.shard, welcome.shard);
	assert_int_equal(out.shards, welcome.shards);
	assert_int_equal(out.chunk_bytes, welcome.chunk_bytes);
	assert_int_equal(out.weight, welcome.weight);
	assert_false(out.proved);
}

static void welcome_must_be_whole(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_welcome_encode(&welcome, payload);

	(void)state;
	ASSERT_ONLY_WHOLE(smd_welcome_decode, smd_welcome, payload, length, "WELCOME");
}

/* With a proof, or exactly without: nothing in between. */
static void welcome_with_a_proof(void **state)
{
	struct smd_welcome proved = welcome;
	size_t without = smd_welcome_encode(&welcome, (uint8_t[SMD_CONTROL_MAX]){0});
	uint8_t payload[SMD_CONTROL_MAX + 1] = {0};
	struct smd_welcome out;
	size_t length;

	(void)state;
	proved.proved = true;
	memset(proved.proof.bytes, 'p', sizeof(proved.proof.bytes));
	length = smd_welcome_encode(&proved, payload);
	assert_int_equal(length, without + SMD_PROOF_SIZE);
	assert_int_equal(DECODE(smd_welcome_decode, payload, length, &out, NULL), 0);
	assert_true(out.proved);
	assert_true(smd_proof_equals(&out.proof, &proved.proof));
	for (size_t n = 0; n <= length + 1; n++) {
		int ret = n == length || n == without ? 0 : -EPROTO;

		assert_int_equal(DECODE(smd_welcome_decode, payload, n, &out, NULL), ret);
	}
}

/* ---- CHALLENGE and PROOF ---- */

static void challenge_and_proof_have_one_length(void **state)
{
	struct smd_challenge challenge = {.nonce = "another nonce of thirty-two byte"};
	struct smd_proof proof = {.bytes = "it shows what cannot be told...."};
	uint8_t payload[SMD_CONTROL_MAX + 1] = {0};
	struct smd_challenge challenged;
	struct smd_proof proved;

	(void)state;
	assert_int_equal(smd_challenge_encode(&challenge, payload), SMD_NONCE_SIZE);
	ASSERT_ONLY_WHOLE(
		smd_challenge_decode, smd_challenge, payload, SMD_NONCE_SIZE, "CHALLENGE");
	assert_int_equal(
		DECODE(smd_challenge_decode, payload, SMD_NONCE_SIZE, &challenged, NULL), 0);
	assert_memory_equal(&challenged, &challenge, sizeof(challenge));
	assert_int_equal(smd_proof_encode(&proof, payload), SMD_PROOF_SIZE);
	ASSERT_ONLY_WHOLE(smd_proof_decode, smd_proof, payload, SMD_PROOF_SIZE, "PROOF");
	assert_int_equal(DECODE(smd_proof_decode, payload, SMD_PROOF_SIZE, &proved, NULL), 0);
	assert_true(smd_proof_equals(&proved, &proof));
}

static void assert_welcome_refused(struct smd_welcome wrong, const char *text)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	struct smd_welcome out;

	assert_int_equal(DECODE(smd_welcome_decode, payload, smd_welcome_encode(&wrong, payload),
				 &out, &error),
		-EPROTO);
	assert_string_equal(error.text, text);
}

static void welcome_fields_are_checked(void **state)
{
	struct smd_welcome wrong = welcome;

	(void)state;
	wrong.shard = 3;
	assert_welcome_refused(
		wrong, "WELCOME: shard must be below shards, at most 64, got 3 of 3");
	wrong.shard = 0;
	wrong.shards = 0;
	assert_welcome_refused(
		wrong, "WELCOME: shard must be below shards, at most 64, got 0 of 0");
	wrong.shards = 65;
	assert_welcome_refused(
		wrong, "WELCOME: shard must be below shards, at most 64, got 0 of 65");
	wrong = welcome;
	wrong.chunk_bytes = 0;
	assert_welcome_refused(
		wrong, "WELCOME: largest chunk must be a multiple of 64 up to 16777216, got 0");
	wrong.chunk_bytes = 65;
	assert_welcome_refused(
		wrong, "WELCOME: largest chunk must be a multiple of 64 up to 16777216, got 65");
	wrong.chunk_bytes = (16 << 20) + 64;
	assert_welcome_refused(wrong,
		"WELCOME: largest chunk must be a multiple of 64 up to 16777216, got 16777280");
	wrong = welcome;
	wrong.weight = 0;
	assert_welcome_refused(wrong, "WELCOME: weight must be at least 1, got 0");
}

/* ---- JOIN ---- */

static const struct smd_join join = {
	.nranks = 255,
	.group = "gradients",
	.table_hash = 0x0102030405060708,
	.attempt = 0x1112131415161718,
	.id = 0x2122232425262728,
};

static void join_round_trip(void **state)
{
	static const char expected[] = "\xff\x00"
				       "\x09\x00gradients"
				       "\x08\x07\x06\x05\x04\x03\x02\x01"
				       "\x18\x17\x16\x15\x14\x13\x12\x11"
				       "\x28\x27\x26\x25\x24\x23\x22\x21";
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_join out;

	(void)state;
	assert_int_equal(smd_join_encode(&join, payload), sizeof(expected) - 1);
	assert_memory_equal(payload, expected, sizeof(expected) - 1);
	assert_int_equal(DECODE(smd_join_decode, payload, sizeof(expected) - 1, &out, NULL), 0);
	assert_int_equal(out.nranks, join.nranks);
	assert_string_equal(out.group, join.group);
	assert_int_equal(out.table_hash, join.table_hash);
	assert_int_equal(out.attempt, join.attempt);
	assert_int_equal(out.id, join.id);
}

static void join_must_be_whole(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_join_encode(&join, payload);

	(void)state;
	ASSERT_ONLY_WHOLE(smd_join_decode, smd_join, payload, length, "JOIN");
}

static void assert_join_refused(const struct smd_join *wrong, const char *text)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	struct smd_join out;

	assert_int_equal(
		DECODE(smd_join_decode, payload, smd_join_encode(wrong, payload), &out, &error),
		-EPROTO);
	assert_string_equal(error.text, text);
}

static void join_fields_are_checked(void **state)
{
	(void)state;
	assert_join_refused(&(struct smd_join){.nranks = 0, .group = "g"},
		"JOIN: ranks must be 1 to 4096, got 0");
	assert_join_refused(&(struct smd_join){.nranks = 4097, .group = "g"},
		"JOIN: ranks must be 1 to 4096, got 4097");
	assert_join_refused(&(struct smd_join){.nranks = 2, .group = ""},
		"JOIN: payload must be as specs/design/wire.md says, got 28 bytes that are not");
}

/* ---- ABORT ---- */

static void abort_round_trip(void **state)
{
	const struct smd_abort abort_message = {.err = EINVAL, .text = "rank 1 says otherwise"};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_abort_encode(&abort_message, payload);
	struct smd_abort out;

	(void)state;
	assert_int_equal(length, 4 + strlen(abort_message.text));
	assert_memory_equal(payload, "\x16\0\0\0rank 1", 10);
	assert_int_equal(DECODE(smd_abort_decode, payload, length, &out, NULL), 0);
	assert_int_equal(out.err, EINVAL);
	assert_string_equal(out.text, abort_message.text);
}

static void abort_needs_an_errno(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_abort out;

	(void)state;
	for (size_t length = 0; length < 4; length++) {
		assert_int_equal(
			DECODE(smd_abort_decode, "\x16\0\0\0", length, &out, NULL), -EPROTO);
	}
	assert_int_equal(DECODE(smd_abort_decode, "\x16\0\0\0", (size_t)4, &out, NULL), 0);
	assert_string_equal(out.text, "");
	for (unsigned i = 0; i < 3; i++) {
		static const uint32_t wrong[] = {0, 4096, UINT32_MAX};
		const struct smd_abort no_errno = {.err = wrong[i], .text = "x"};
		size_t length = smd_abort_encode(&no_errno, payload);

		assert_int_equal(DECODE(smd_abort_decode, payload, length, &out, NULL), -EPROTO);
	}
}

/* With a proof and without. */
static void pair_round_trip(void **state)
{
	struct smd_pair pair = {.offer = {.length = SMD_OFFER_MAX}};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	struct smd_pair out;

	(void)state;
	memset(pair.offer.bytes, 0x5a, sizeof(pair.offer.bytes));
	memset(pair.proof.bytes, 0xa5, sizeof(pair.proof.bytes));
	for (int proved = 0; proved < 2; proved++) {
		size_t length;

		pair.proved = proved;
		length = smd_pair_encode(&pair, payload);
		assert_int_equal(DECODE(smd_pair_decode, payload, length, &out, &error), 0);
		assert_int_equal(out.offer.length, SMD_OFFER_MAX);
		assert_memory_equal(out.offer.bytes, pair.offer.bytes, SMD_OFFER_MAX);
		assert_int_equal(out.proved, proved);
		assert_int_equal(DECODE(smd_pair_decode, payload, length - 1, &out, &error), -EPROTO);
		assert_int_equal(DECODE(smd_pair_decode, payload, length + 1, &out, &error), -EPROTO);
	}
	assert_memory_equal(out.proof.bytes, pair.proof.bytes, SMD_PROOF_SIZE);
}

static void an_offer_has_1_to_128_bytes(void **state)
{
	static const uint8_t wrong[][2] = {{0, 0}, {SMD_OFFER_MAX + 1, 0}, {0, 1}};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error;
	struct smd_pair out;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error = (struct smd_error){""};
		memset(payload, 0, sizeof(payload));
		memcpy(payload, wrong[i], 2);
		assert_int_equal(
			DECODE(smd_pair_decode, payload, (size_t)400, &out, &error), -EPROTO);
	}
	assert_string_equal(error.text, "PAIR: offer must have 1 to 128 bytes, got 256");
}

/* ---- LATE ---- */

static void late_round_trip(void **state)
{
	struct smd_late late = {.nranks = 10, .text = "rank 4 of 10 not joined yet"};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_late out;
	size_t length;

	(void)state;
	for (unsigned r = 0; r < late.nranks; r++) {
		if (r != 4) {
			smd_rank_set_add(&late.there, r);
		}
	}
	length = smd_late_encode(&late, payload);
	assert_memory_equal(payload, "\x0a\0\xef\x03rank 4", 10);
	assert_int_equal(DECODE(smd_late_decode, payload, length, &out, NULL), 0);
	assert_int_equal(out.nranks, late.nranks);
	assert_memory_equal(&out.there, &late.there, sizeof(out.there));
	assert_string_equal(out.text, late.text);
}

/* As while a slot waits: there is no set. */
static void late_without_ranks(void **state)
{
	const struct smd_late late = {.text = "rank 3 is late"};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_late out = {.there = {{1}}};

	(void)state;
	assert_int_equal(
		DECODE(smd_late_decode, payload, smd_late_encode(&late, payload), &out, NULL), 0);
	assert_int_equal(out.there.bytes[0], 0);
	assert_string_equal(out.text, late.text);
}

/* The largest group, and a text of any length, are within a frame; a set that is cut is not taken.
 */
static void late_must_hold_its_set(void **state)
{
	struct smd_late late = {.nranks = SMD_NRANKS_MAX};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	struct smd_late out;

	(void)state;
	memset(late.text, 'a', sizeof(late.text) - 1);
	assert_int_equal(smd_late_encode(&late, payload), 2 + 512 + 511);
	assert_int_equal(DECODE(smd_late_decode, payload, 513, &out, &error), -EPROTO);
	assert_string_equal(error.text,
		"LATE: payload must be as specs/design/wire.md says, got 513 bytes that are not");
	assert_int_equal(DECODE(smd_late_decode, payload, 1, &out, &error), -EPROTO);
	memcpy(payload, "\x01\x10", 2);
	error = (struct smd_error){""};
	assert_int_equal(DECODE(smd_late_decode, payload, 600, &out, &error), -EPROTO);
	assert_string_equal(error.text, "LATE: ranks must be at most 4096, got 4097");
}

static void a_set_holds_what_it_has(void **state)
{
	struct smd_rank_set few = {{0}};
	struct smd_rank_set more = {{0}};

	(void)state;
	assert_true(smd_rank_set_holds(&few, &more));
	smd_rank_set_add(&more, 0);
	smd_rank_set_add(&more, SMD_NRANKS_MAX - 1);
	smd_rank_set_add(&few, SMD_NRANKS_MAX - 1);
	assert_true(smd_rank_set_holds(&more, &few));
	assert_false(smd_rank_set_holds(&few, &more));
}

/* ---- texts ---- */

/* The longest payload that a frame may have does not overflow the text. */
static void texts_are_cut_at_511_bytes(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	char text[SMD_ERROR_TEXT_MAX];
	struct smd_abort out;

	(void)state;
	memset(payload, 'a', sizeof(payload));
	smd_text_decode(payload, sizeof(payload), text);
	assert_int_equal(strlen(text), SMD_ERROR_TEXT_MAX - 1);
	memcpy(payload, "\x01\0\0\0", 4);
	assert_int_equal(DECODE(smd_abort_decode, payload, sizeof(payload), &out, NULL), 0);
	assert_int_equal(strlen(out.text), SMD_ERROR_TEXT_MAX - 1);
}

/* A peer's text goes to a terminal: it must not move the cursor or fake a second line. */
static void texts_lose_their_control_characters(void **state)
{
	static const uint8_t nasty[] = "a\nb\x1b[2Jc\0d\x7f\xc3\xa9";
	char text[SMD_ERROR_TEXT_MAX];

	(void)state;
	smd_text_decode(nasty, sizeof(nasty) - 1, text);
	assert_string_equal(text, "a?b?[2Jc?d?\xc3\xa9");
	smd_text_decode(nasty, 0, text);
	assert_string_equal(text, "");
}

static void text_round_trip(void **state)
{
	uint8_t payload[SMD_CONTROL_MAX];
	char text[SMD_ERROR_TEXT_MAX];

	(void)state;
	smd_text_decode(payload, smd_text_encode("rank 3 is late", payload), text);
	assert_string_equal(text, "rank 3 is late");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_bytes),
		cmocka_unit_test(hello_round_trip),
		cmocka_unit_test(hello_with_the_longest_strings_fits),
		cmocka_unit_test(hello_must_be_whole),
		cmocka_unit_test(hello_must_have_no_flags_that_are_none),
		cmocka_unit_test(hello_must_name_a_replica),
		cmocka_unit_test(a_string_of_256_bytes_is_refused),
		cmocka_unit_test(control_characters_in_a_string_are_refused),
		cmocka_unit_test(welcome_round_trip),
		cmocka_unit_test(welcome_must_be_whole),
		cmocka_unit_test(welcome_with_a_proof),
		cmocka_unit_test(challenge_and_proof_have_one_length),
		cmocka_unit_test(welcome_fields_are_checked),
		cmocka_unit_test(join_round_trip),
		cmocka_unit_test(join_must_be_whole),
		cmocka_unit_test(join_fields_are_checked),
		cmocka_unit_test(abort_round_trip),
		cmocka_unit_test(abort_needs_an_errno),
		cmocka_unit_test(pair_round_trip),
		cmocka_unit_test(an_offer_has_1_to_128_bytes),
		cmocka_unit_test(late_round_trip),
		cmocka_unit_test(late_without_ranks),
		cmocka_unit_test(late_must_hold_its_set),
		cmocka_unit_test(a_set_holds_what_it_has),
		cmocka_unit_test(texts_are_cut_at_511_bytes),
		cmocka_unit_test(texts_lose_their_control_characters),
		cmocka_unit_test(text_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
