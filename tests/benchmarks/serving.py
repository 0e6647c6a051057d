"""A lab server of a benchmark's own: on a free port, offline, gone afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
START_LIMIT_SECONDS = 60


@dataclass(frozen=True)
class Server:
    host: str  # "127.0.0.1:port"
    pid: int
    start_seconds: float  # from the command to the first healthy answer

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@contextmanager
def running_server(cache: Path) -> Iterator[Server]:
    """A server that keeps its digits and records in `cache`, with all other settings at default."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
    environment |= {"LAB_CACHE_DIR": str(cache), "LAB_OFFLINE": "true"}
    address = ["--server.address", "127.0.0.1", "--server.port", host.rpartition(":")[2]]
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", *address],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        while not healthy(host):
            if process.poll() is not None:
                raise SystemExit(f"the server ended with exit code {process.returncode}")
            if time.perf_counter() - started > START_LIMIT_SECONDS:
                raise SystemExit(f"the server was not healthy in {START_LIMIT_SECONDS} s")
            time.sleep(0.01)
        yield Server(host, process.pid, time.perf_counter() - started)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def healthy(host: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}/_stcore/health", timeout=1) as answer:
            return bool(answer.read() == b"ok")  # any other path answers 200 with the app's HTML
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
