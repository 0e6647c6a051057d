"""A real HTTP server on this machine that serves files as the model hub does, good days and bad."""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """Large files lie at /large/..., where HEAD is sent on to /cdn/... with a SHA-256, as on the
    hub; all others are small, with Git's name of their content. The switches may be set any time.
    """

    files: dict[str, bytes]
    ranges: bool = True  # False: it sends all of a file, whatever was asked for
    cut_after: int | None = None  # the next body ends after so many bytes; then all is well again
    damaged: bool = False  # it sends other bytes than it says
    checksums: bool = True
    hold_after: int | None = None  # bodies wait here until `go_on` is set
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, range of each GET
    address: str = ""

    def bodies_of(self, path: str) -> list[str | None]:
        """The range that each request for the content of this file asked for."""
        return [asked for name, asked in self.asked if name.endswith(path)]


@contextmanager
def serving(files: dict[str, bytes]):
    state = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            content = state.files.get(self.path.removeprefix("/cdn").strip("/"))
            if content is None:
                return self.answer(404, {"Content-Length": "0"})
            if not self.path.startswith("/large/"):
                git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
                tag = {"ETag": f'"{git}"'} if state.checksums else {}
                return self.answer(200, {"Content-Length": str(len(content)), **tag})
            told = {"X-Linked-Size": str(len(content)), "Content-Length": "0"}
            if state.checksums:
                told["X-Linked-Etag"] = f'"{hashlib.sha256(content).hexdigest()}"'
            return self.answer(302, {"Location": f"/cdn{self.path}", **told})

        def do_GET(self):
            if self.path.startswith("/large/"):
                self.answer(302, {"Location": f"/cdn{self.path}", "Content-Length": "0"})
                return
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            content = state.files.get(self.path.removeprefix("/cdn").strip("/"))
            if content is None:
                self.answer(404, {"Content-Length": "0"})
                return
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
            if state.ranges and start >= len(content):
                self.answer(416, {"Content-Length": "0"})
                return
            start = start if state.ranges else 0
            headers = {"Content-Length": str(len(content) - start)}
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206 if start else 200, headers)
            self.send(content[start:])

        def send(self, body):
            if state.damaged:
                body = bytes([body[0] ^ 1]) + body[1:]
            if state.cut_after is not None and len(body) > state.cut_after:
                body, state.cut_after = body[: state.cut_after], None
                self.close_connection = True
            if state.hold_after is not None and len(body) > state.hold_after:
                self.wfile.write(body[: state.hold_after])
                self.wfile.flush()
                state.go_on.wait(30)
                body = body[state.hold_after :]
            self.wfile.write(body)

        def answer(self, status, headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *words):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            pass  # a reader that was stopped has hung up

    with Server(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            state.go_on.set()
            server.shutdown()
            thread.join()
