"""One file over HTTPS: continued where it was cut, and proven before it is used. Needs no torch.

Requests does the talking, since it is here anyway for Streamlit: it takes the proxies of the
environment, gives up connecting after seconds, and hands the bytes over as they come. The hub's
own downloader was not taken: it cannot be stopped in the middle, and some files are not on the hub.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import requests

from core.context import never
from core.problems import Problem

CONNECT_SECONDS = 4.0
STALL_SECONDS = 20.0  # a server that sends nothing for this long is given up
ANSWER_SECONDS = 8.0  # for the first answer, the lookup of the name included
TRIES = 4  # in a row that bring nothing new
WAIT_SECONDS = 0.4  # before the second try; longer before each further one
CHUNK = 2**17
HOPS = 5  # redirections until the server says what it holds

AS_IT_IS = {"Accept-Encoding": "identity"}  # sizes and ranges count the bytes of the file itself

T = TypeVar("T")

_log = logging.getLogger(__name__)


class FetchFailed(Problem):
    """It did not work today: the network, the server, the disk. What was asked for was right."""


class Origin(StrEnum):
    """Who says what a file must be; `asset.proof.<value>` in the catalogues names it."""

    KNOWN = "known"  # its SHA-256 stands in the lab's list
    SERVER = "server"  # the server's own checksum
    SIZE = "size"  # the server tells no checksum, only the size


@dataclass(frozen=True, slots=True)
class Proof:
    """What the bytes of a file must be."""

    size: int
    checksum: str  # SHA-256 (64 digits), Git's name of the content (40 digits), or "" for none
    origin: Origin

    def holds(self, path: Path) -> bool:
        """Whether the file is there and is the right one; reads all of it."""
        try:
            if path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                return not self.checksum or self._checksum_of(file) == self.checksum
        except FileNotFoundError:
            return False

    def _checksum_of(self, file: BufferedReader) -> str:
        if len(self.checksum) == 64:
            return hashlib.file_digest(file, "sha256").hexdigest()
        # Git's name of a file: SHA-1 of a short header and the content.
        content = f"blob {self.size}\0".encode() + file.read()  # small: large files have SHA-256
        return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def look_up(address: str, sha256: str | None = None) -> Proof:
    """What the server says that it holds at `address`; `sha256` where the lab itself knows better.

    Raises FetchFailed where there is no network or no such file: within seconds.
    """
    try:
        headers = _within(ANSWER_SECONDS, lambda: _headers(address))
    except (requests.RequestException, TimeoutError) as error:
        _log.info("%s does not answer: %r", address, error)
        raise FetchFailed("problem.asset_no_network", host=_host(address)) from None
    try:
        size = int(headers.get("X-Linked-Size") or headers["Content-Length"])
    except (KeyError, ValueError):
        raise FetchFailed("problem.asset_no_size", address=address) from None
    if sha256 is not None:
        return Proof(size, sha256, Origin.KNOWN)
    tag = (headers.get("X-Linked-Etag") or headers.get("ETag", "")).removeprefix("W/").strip('"')
    if re.fullmatch("[0-9a-f]{64}|[0-9a-f]{40}", tag):
        return Proof(size, tag, Origin.SERVER)
    return Proof(size, "", Origin.SIZE)


def download(
    address: str,
    proof: Proof,
    part: Path,
    *,
    on_bytes: Callable[[int], None],
    stopped: Callable[[], bool] = never,
) -> bool:
    """Bring `part` to its full size, from where an earlier try left it; False: stopped before.

    `on_bytes` hears how many bytes there are by now. Raises FetchFailed, and OSError of the disk.
    """
    failures = 0
    while not stopped():
        before = _size(part)
        try:
            return _fill(address, proof, part, on_bytes, stopped)
        except requests.RequestException as error:
            failures = 1 if _size(part) > before else failures + 1
            _log.warning("%s was cut at %d bytes: %r", address, _size(part), error)
            if failures == TRIES:
                raise FetchFailed("problem.asset_cut", host=_host(address)) from None
            time.sleep(WAIT_SECONDS * failures)
    return False


def _fill(
    address: str,
    proof: Proof,
    part: Path,
    on_bytes: Callable[[int], None],
    stopped: Callable[[], bool],
) -> bool:
    """One try. Raises requests.RequestException where it was cut."""
    have = _size(part)
    if have > proof.size:  # of another file
        part.unlink()
        have = 0
    if have == proof.size > 0:
        return True
    headers = {**AS_IT_IS, "Range": f"bytes={have}-"} if have else AS_IT_IS
    timeout = (CONNECT_SECONDS, STALL_SECONDS)
    with requests.get(address, headers=headers, timeout=timeout, stream=True) as response:
        _must_be_safe(address, response.url)
        going_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status_code == 416 or (response.status_code == 206 and not going_on):
            part.unlink(missing_ok=True)  # the next try starts again
            raise requests.ConnectionError("not the range that was asked for")
        if response.status_code == 200:
            have = 0  # a server that does not know ranges sends all of it
        _must_be_there(address, response.status_code)
        with part.open("ab" if have else "wb") as file:
            for chunk in response.iter_content(CHUNK):
                have += len(chunk)
                if have > proof.size:
                    break  # not what it said: the proof will tell
                file.write(chunk)
                on_bytes(have)
                if stopped():
                    return False
    if have < proof.size:
        raise requests.ConnectionError(f"{have} of {proof.size} bytes came")
    return True


def _headers(address: str) -> requests.structures.CaseInsensitiveDict[str]:
    """Of the first answer that tells checksum and size: the hub's redirection does, its CDN not."""
    url = address
    for _ in range(HOPS):
        response = requests.head(
            url, headers=AS_IT_IS, timeout=(CONNECT_SECONDS, CONNECT_SECONDS), allow_redirects=False
        )
        _must_be_there(url, response.status_code)
        if "X-Linked-Etag" in response.headers or not response.is_redirect:
            return response.headers
        url = urljoin(url, response.headers["Location"])
        _must_be_safe(address, url)
    raise requests.TooManyRedirects(address)


def _must_be_there(address: str, status: int) -> None:
    if status >= 500:
        raise requests.ConnectionError(f"{address} answers {status}")  # perhaps not the next time
    if status >= 400:
        raise FetchFailed("problem.asset_refused", address=address, status=str(status))


def _must_be_safe(asked: str, answered: str) -> None:
    """What was asked for over HTTPS must not come over a line that others can write on."""
    if urlsplit(asked).scheme == "https" and urlsplit(answered).scheme != "https":
        raise FetchFailed("problem.asset_unsafe", host=_host(answered))


def _within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises; TimeoutError when that takes longer.

    The lookup of a name has no time limit of its own, so the call is left behind in its thread.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="asking a server", daemon=True).start()
    return answer.result(seconds)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _host(address: str) -> str:
    return urlsplit(address).hostname or address
