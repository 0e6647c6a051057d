"""A proxy before the real lab that spoils one thing, as proxies of schools do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BODY_LIMIT = 2**20  # what nginx lets through if nobody tells it otherwise
PREFIX = "/gpu"


@contextmanager
def proxy(port: int, fault: str = "", *, host: str = "127.0.0.1") -> Iterator[int]:
    """The port of a proxy to the lab at `port`, spoilt in this way."""

    class Handler(Spoiling):
        pass

    Handler.lab, Handler.fault, Handler.kept = port, fault, {}
    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Spoiling(BaseHTTPRequestHandler):
    lab: int
    fault: str
    kept: dict[str, Any]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, headers = self.path, dict(self.headers.items())
        if self.fault == "redirect" and path == "/":
            self._answer(301, [("Location", f"http://127.0.0.1:{self.lab}/")], b"")
            return
        if self.fault == "circle":
            self._answer(302, [("Location", path)], b"")
            return
        if "Upgrade" in headers:
            if self.fault == "no websocket":
                del headers["Upgrade"], headers["Connection"]
            elif self.fault == "other host":
                headers["Host"] = "backend:8501"
            elif self.fault == "any origin":
                headers["Origin"] = f"http://{headers['Host']}"
        self._pass_on("GET", path, headers)

    def do_PUT(self) -> None:
        headers = dict(self.headers.items())
        length = int(headers["Content-Length"])
        if self.fault == "small body" and length > BODY_LIMIT:
            self.close_connection = True
            self._answer(413, [("Connection", "close")], b"")
            return
        body = self.rfile.read(length)
        if self.fault == "no xsrf":
            status, answered, _ = self._asked("GET", "/_stcore/health", {})
            assert status == 200
            cookie = next(value for name, value in answered if name.lower() == "set-cookie")
            headers["Cookie"] = cookie.partition(";")[0]
            headers["X-Xsrftoken"] = headers["Cookie"].partition("=")[2]
        self._pass_on("PUT", self.path, headers, body)

    def _asked(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.fault == "cut path":
            path = path.removeprefix(PREFIX)
        connection = http.client.HTTPConnection("127.0.0.1", self.lab, timeout=10)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            content = b"" if response.status == 101 else response.read()
            return response.status, response.getheaders(), content
        finally:
            connection.close()

    def _pass_on(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> None:
        status, answered, content = self._asked(method, path, headers, body)
        if self.fault == "no cookies":
            answered = [(name, value) for name, value in answered if name.lower() != "set-cookie"]
        if self.fault == "cached" and path == "/":
            status, answered, content = self.kept.setdefault("/", (status, answered, content))
        if self.fault == "no scripts" and path.endswith(".js"):
            status, answered, content = 404, [], b""
        self._answer(status, answered, content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "content-length"):
                self.send_header(name, value)
        if status != 101:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
