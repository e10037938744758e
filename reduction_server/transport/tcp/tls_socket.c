/* A lane's socket as OpenSSL's BIO: like OpenSSL's own, but a write raises no SIGPIPE. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "reduction_server/transport/tcp/tls_lane.h"

static BIO_METHOD *method; /* stays: there is one in a process */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK;
}

static int socket_write(BIO *bio, const char *bytes, int length)
{
	const struct tcp_lane *tcp = BIO_get_data(bio);
	ssize_t sent;

	do {
		sent = send(tcp->fd, bytes, (size_t)length, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	BIO_clear_retry_flags(bio);
	if (sent < 0 && would_block()) {
		BIO_set_retry_write(bio);
	}
	return (int)sent;
}

static int socket_read(BIO *bio, char *bytes, int length)
{
	const struct tcp_lane *tcp = BIO_get_data(bio);
	ssize_t got;

	do {
		got = recv(tcp->fd, bytes, (size_t)length, 0);
	} while (got < 0 && errno == EINTR);
	BIO_clear_retry_flags(bio);
	if (got < 0 && would_block()) {
		BIO_set_retry_read(bio);
	}
	tcp->tls->eof |= got == 0;
	return (int)got;
}

static long socket_ctrl(BIO *bio, int what, long number, void *pointer)
{
	const struct tcp_lane *tcp = BIO_get_data(bio);

	(void)number;
	(void)pointer;
	return what == BIO_CTRL_FLUSH ? 1 : what == BIO_CTRL_EOF ? tcp->tls->eof : 0;
}

static BIO_METHOD *socket_method(void)
{
	pthread_mutex_lock(&lock);
	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lane");
		if (method) {
			BIO_meth_set_write(method, socket_write);
			BIO_meth_set_read(method, socket_read);
			BIO_meth_set_ctrl(method, socket_ctrl);
		}
	}
	pthread_mutex_unlock(&lock);
	return method;
}

BIO *smd_tls_socket_create(struct tcp_lane *tcp)
{
	const BIO_METHOD *socket = socket_method();
	BIO *bio = socket ? BIO_new(socket) : NULL;

	if (bio) {
		BIO_set_data(bio, tcp);
		BIO_set_init(bio, 1);
	}
	return bio;
}
