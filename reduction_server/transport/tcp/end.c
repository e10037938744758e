/* Ends a TCP lane for a reason: the one way to on_closed(). */
#include <event2/event.h>

#include "reduction_server/transport/tcp/tcp.h"

void smd_tcp_ended(struct tcp_lane *tcp, int err, const char *reason)
{
	if (tcp->closed) {
		return;
	}
	tcp->ended = true;
	event_del(tcp->readable);
	event_del(tcp->writable);
	if (tcp->watch.timer) {
		event_del(tcp->watch.timer);
	}
	tcp->callbacks->on_closed(tcp->owner, err, reason);
}
