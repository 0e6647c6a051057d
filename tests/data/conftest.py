"""A small stand-in for MNIST, a cache with the widened digits, and servers that misbehave."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from core.data.idx import LAYOUT, IdxFile, IdxPair

ROOT = Path(__file__).parents[2]
LOAD = """
import sys
from pathlib import Path
from core.data.digits import load_digits
from core.settings import LabSettings
digits = load_digits(LabSettings(cache_dir=Path(sys.argv[1]), offline=True))
print(digits.source, len(digits.notices), digits.images.sum(), "torch" in sys.modules)
"""


@dataclass(frozen=True)
class SmallMnist:
    """600 made-up images and labels, the files that hold them, and what a reader may expect."""

    images: np.ndarray
    labels: np.ndarray
    files: dict[str, bytes]
    pair: IdxPair

    def write(self, root: Path) -> Path:
        """Lay the files out as torchvision does; gives the folder that holds them."""
        folder = root / LAYOUT
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder


@pytest.fixture(scope="session")
def small_mnist() -> SmallMnist:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (600, 28, 28), np.uint8)
    labels = random.integers(0, 10, 600, np.uint8)
    files = {
        "train-images-idx3-ubyte": bytes.fromhex("00000803 00000258 0000001c 0000001c")
        + images.tobytes(),
        "train-labels-idx1-ubyte": bytes.fromhex("00000801 00000258") + labels.tobytes(),
    }
    shapes = (images.shape, labels.shape)
    pair = IdxPair(
        *(
            IdxFile(name, shape, hashlib.md5(content).hexdigest())
            for (name, content), shape in zip(files.items(), shapes, strict=True)
        )
    )
    return SmallMnist(images, labels, files, pair)


@dataclass(frozen=True)
class Prepared:
    """A cache folder that two processes filled at the same time, and what they said."""

    folder: Path
    said: list[str]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    loads = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    return Prepared(folder, [load.communicate(timeout=60)[0] for load in loads])


@pytest.fixture
def cache(prepared: Prepared, tmp_path: Path) -> Path:
    """A cache of one's own with the widened digits in it."""
    return Path(shutil.copytree(prepared.folder, tmp_path / "cache"))


@dataclass
class FakeServer:
    address: str
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def garbage_server() -> Iterator[FakeServer]:
    """A server that answers every request, with something that is not MNIST."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self._answer(b"")

        def do_GET(self):
            self._answer(b"<html>Please log in to the network</html>")

        def _answer(self, body):
            server.requests.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = FakeServer(f"http://127.0.0.1:{http.server_port}/")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        http.shutdown()
        thread.join()


@pytest.fixture
def silent_server() -> Iterator[Callable[[], None]]:
    """A server that takes connections and never says a word. Called, it waits for one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        taken = []

        def wait_for_visitor() -> None:
            taken.append(listener.accept()[0])

        wait_for_visitor.address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        yield wait_for_visitor
        for connection in taken:
            connection.close()
