/* What becomes of OpenSSL's errors: an errno for the lane, and a reason in words. */
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/tls_lane.h"

#define NO_TLS "TLS: the other end does not speak it; a reduction server does with --tls"
#define NOTHING_COMMON                                                                             \
	"TLS: the two ends have no cipher or group in common, though every end of Summand's "      \
	"has: is something else at that address, or on the way?"

/* What the other end has said, or what was found here; `agreed`: frames have crossed already. */
static const char *tls_explain(const struct tcp_lane *tcp, unsigned long code, int *err)
{
	bool agreed = !tcp->securing;

	*err = EPROTO;
	switch (ERR_GET_REASON(code)) {
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		*err = ECONNRESET;
		return agreed ? "TLS: the connection was cut: the other end has not said that it "
				"ends"
			      : "TLS: the other end closed the connection before it had agreed";
	case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
		*err = EBADMSG;
		return "TLS: a record is not as the other end has sent it";
	case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
	case SSL_R_WRONG_VERSION_NUMBER:
		*err = agreed ? EPROTO : EACCES;
		return agreed ? "TLS: what came is no record" : NO_TLS;
	case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
		*err = EBADMSG;
		return "TLS: a record did not come to the other end as it was sent";
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY:
		*err = agreed ? EPROTO : EACCES;
		return agreed ? NULL : NOTHING_COMMON;
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER: /* what OpenSSL says of another secret */
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
		*err = agreed ? EPROTO : EACCES;
		return agreed ? NULL : "TLS: the other end has another token for this job, or none";
	case SSL_R_BINDER_DOES_NOT_VERIFY:
		*err = EACCES;
		return tcp->tls->unknown ? "TLS: there is no token here for the job that it names"
					 : "TLS: its token for the job is another";
	default:
		return NULL;
	}
}

int smd_tcp_tls_failed(struct tcp_lane *tcp, int ret)
{
	struct tcp_tls *tls = tcp->tls;
	int error = errno;
	unsigned long code;
	const char *text;

	if (tls->err || tls->over) {
		return tls->err;
	}
	switch (SSL_get_error(tls->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		tls->over = true;
		return 0;
	case SSL_ERROR_SYSCALL:
		tls->err = error ? error : ECONNRESET;
		return tls->err;
	default:
		break;
	}
	code = ERR_peek_error();
	text = tls_explain(tcp, code, &tls->err);
	if (text) {
		snprintf(tls->reason, sizeof(tls->reason), "%s", text);
	} else {
		text = ERR_reason_error_string(code);
		snprintf(tls->reason, sizeof(tls->reason), "TLS: %s", text ? text : "it failed");
	}
	ERR_clear_error();
	return tls->err;
}

const char *smd_tcp_tls_reason(const struct tcp_lane *tcp, int err)
{
	return tcp->tls && tcp->tls->err == err && tcp->tls->reason[0] ? tcp->tls->reason
								       : strerror(err);
}

bool smd_tcp_tls_holds(const struct tcp_lane *tcp)
{
	const struct tcp_tls *tls = tcp->tls;

	return tls->ssl && (tls->err || tls->over || SSL_has_pending(tls->ssl));
}
