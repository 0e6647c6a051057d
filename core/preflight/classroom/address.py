"""The lab's address as a browser sees it: requests, a websocket, an upload. No Streamlit here."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import ipaddress
import os
import select
import socket
import ssl
from dataclasses import dataclass
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from urllib.parse import SplitResult, urljoin, urlsplit

import psutil

SECONDS = 5.0  # for one answer
MOST_REDIRECTS = 5
MOST_READ = 4 * 2**20  # bytes of an answer
EARLY_SECONDS = 0.3  # in which a server that refuses a large body by its length says so
WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
CLOSE_FRAME = b"\x88\x80\x00\x00\x00\x00"  # empty and masked, as a browser's
LOCAL_NAMES = ("localhost", "localhost.localdomain")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    body: bytes = b""

    def cookie(self, name: str) -> str:
        """The value of a cookie that the answer sets; empty if it does not."""
        for line in self.headers.get_all("set-cookie", []):
            try:
                morsel = SimpleCookie(line).get(name)
            except CookieError:
                continue
            if morsel is not None:
                return str(morsel.value)
        return ""

    def cookie_line(self, name: str) -> str:
        lines = self.headers.get_all("set-cookie", [])
        return next((str(line) for line in lines if line.startswith(f"{name}=")), "")


class Site:
    """One address and what lies below it. Every method may raise OSError or HTTPException."""

    def __init__(self, address: str) -> None:
        """Raises ValueError where this is no address of a web page."""
        text = address if "://" in address else f"http://{address}"
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(address)
        _ = parts.port  # raises where it is no number
        self._parts: SplitResult = parts
        self.path = parts.path.rstrip("/")  # that the lab lies below: "" or "/gpu"

    @property
    def host(self) -> str:
        return self._parts.hostname or ""

    @property
    def port(self) -> int:
        return self._parts.port or (443 if self.secure else 80)

    @property
    def secure(self) -> bool:
        return self._parts.scheme == "https"

    @property
    def origin(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}/"

    def ask(
        self,
        path: str = "",
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """What `<address>/<path>` answers; follows nothing."""
        with contextlib.closing(self._connection()) as connection:
            connection.request(
                method, f"{self.path}/{path}", body=body or None, headers=headers or {}
            )
            return _answer(connection)

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """PUT a large body; a server may refuse it before it has all come."""
        with contextlib.closing(self._connection()) as connection:
            connection.putrequest("PUT", f"{self.path}/{path}")
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders()
            early, _, _ = select.select([connection.sock], [], [], EARLY_SECONDS)
            if not early:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.send(body)
            return _answer(connection)

    def upgrade(self, path: str, *, origin: str) -> Answer:
        """Ask for a websocket as a browser does, and close it again. 101: there it is."""
        key = base64.b64encode(os.urandom(16)).decode()
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Origin": origin,
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Protocol": "streamlit",
        }
        with contextlib.closing(self._connection()) as connection:
            connection.request("GET", f"{self.path}/{path}", headers=headers)
            answer = _answer(connection)
            if answer.status != http.client.SWITCHING_PROTOCOLS:
                return answer
            proof = hashlib.sha1((key + WEBSOCKET_GUID).encode(), usedforsecurity=False).digest()
            if answer.headers.get("sec-websocket-accept") != base64.b64encode(proof).decode():
                return Answer(0, answer.headers)  # it says so, and has not understood
            if connection.sock is not None:
                connection.sock.sendall(CLOSE_FRAME)
            return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self.secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=SECONDS, context=context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)


def _answer(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    body = b"" if response.status == http.client.SWITCHING_PROTOCOLS else response.read(MOST_READ)
    return Answer(response.status, response.headers, body)


def arrived(address: str) -> tuple[Site, Answer, int]:
    """Where the address leads in the end, the page there, and after how many redirects.

    Raises ValueError, OSError or HTTPException; ValueError also where it leads round in a circle.
    """
    site = Site(address)
    for redirects in range(MOST_REDIRECTS + 1):
        answer = site.ask()
        where = answer.headers.get("location")
        if answer.status not in (301, 302, 303, 307, 308) or not where:
            return site, answer, redirects
        site = Site(urljoin(site.url, where))
    raise ValueError(address)


def is_local(host: str) -> bool:
    """Whether this name means the machine itself, and is of no use on any other."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def answers_from_outside(port: int) -> str | None:
    """An address of this machine in a network at which something listens on this port."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family != socket.AF_INET or is_local(one.address):
                continue
            with contextlib.suppress(OSError):
                socket.create_connection((one.address, port), timeout=0.5).close()
                return str(one.address)
    return None
