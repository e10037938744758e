"""Stands in for Horovod's module of this name: the server that its Gloo contexts meet at."""

import http.server


class RendezvousHandler(http.server.BaseHTTPRequestHandler):
    def place(self):
        _, scope, key = self.path.split("/")
        return self.server.scopes.setdefault(scope, {}), scope, key

    def answer(self, code, body=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        values, _, key = self.place()
        self.answer(*((200, values[key]) if key in values else (404,)))

    def do_PUT(self):
        values, _, key = self.place()
        values[key] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_DELETE(self):
        values, scope, key = self.place()
        finished = self.server.finished.setdefault(scope, [])
        finished.append(key)
        if len(finished) == self.server.sizes[scope]:  # those of the plan only
            values.clear()
            finished.clear()
        self.answer(200)

    def log_message(self, format, *args):
        pass


class RendezvousHTTPServer(http.server.ThreadingHTTPServer):
    def __init__(self, addr, handler, verbose):
        super().__init__(addr, handler)

    def init(self, host_alloc_plan):
        self.scopes, self.finished, self.sizes = {}, {}, {}
        for slot in host_alloc_plan:
            self.sizes["global"] = slot.size
            self.sizes["local_" + slot.hostname] = slot.local_size
            self.sizes[f"cross_{slot.local_rank}"] = slot.cross_size
