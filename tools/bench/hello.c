/*
 * The least that answers HTTP: libevent's evhttp, which says hello to every request (tools/bench-service).
 *
 *   hello
 *
 * Its first line of output is the port on loopback that it listens on. It ends with its standard input.
 */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <netinet/in.h>

static void answer(struct evhttp_request *request, void *arg)
{
	struct evbuffer *body = evbuffer_new();

	(void)arg;
	if (!body) {
		evhttp_send_error(request, HTTP_INTERNAL, NULL);
		return;
	}
	evbuffer_add_printf(body, "hello\n");
	evhttp_send_reply(request, HTTP_OK, "OK", body);
	evbuffer_free(body);
}

static void end(evutil_socket_t fd, short what, void *base)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(base);
}

static int print_port(struct evhttp_bound_socket *bound)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	if (getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &size)) {
		return -1;
	}
	printf("%d\n", ntohs(address.sin_port));
	return fflush(stdout);
}

int main(void)
{
	struct event_base *base = event_base_new();
	struct evhttp *http = base ? evhttp_new(base) : NULL;
	struct evhttp_bound_socket *bound =
		http ? evhttp_bind_socket_with_handle(http, "127.0.0.1", 0) : NULL;
	struct event *input = base ? event_new(base, 0, EV_READ, end, base) : NULL;

	if (!bound || !input || event_add(input, NULL) || print_port(bound)) {
		fprintf(stderr, "hello: cannot listen on loopback\n");
		return EXIT_FAILURE;
	}
	evhttp_set_gencb(http, answer, NULL);
	event_base_dispatch(base);
	event_free(input);
	evhttp_free(http);
	event_base_free(base);
	return EXIT_SUCCESS;
}
