"""MNIST from the internet, in a child process: quick to give up, and torch stays out of this one.

    python -m core.data.fetch probe ADDRESS            exit code 0 if the server answers
    python -m core.data.fetch download ADDRESS FOLDER  torchvision's download, checksums included

A child can be ended at its time limit wherever it hangs, be it in the lookup of a name.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import ClassVar

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # the first of torchvision's
ANSWER_SECONDS = 1.5  # for the server's first answer
PROBE_SECONDS = 3.0  # the same with name lookup and the start of the child
DOWNLOAD_SECONDS = 60.0  # 10 MB and the import of torch
STALL_SECONDS = 10.0  # a download that stands still for this long is given up

PARENT_GONE = 3  # exit code of a child that was left alone
ROOT = Path(__file__).parents[2]  # where `python -m core...` finds the package

_log = logging.getLogger(__name__)


def answers(address: str) -> bool:
    """Whether there is a network and MNIST's server on it; takes a few seconds at the most."""
    return _run("probe", address, seconds=PROBE_SECONDS)


def download(address: str, folder: Path) -> bool:
    """Put MNIST's training files below `folder` in torchvision's layout. False: it did not work."""
    return _run("download", address, str(folder.absolute()), seconds=DOWNLOAD_SECONDS)


def _run(*words: str, seconds: float) -> bool:
    # The child reads its standard input to learn of this process's end, see `_end_with_parent`.
    child = subprocess.Popen(
        [sys.executable, "-m", "core.data.fetch", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with child:
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            code = -1
    _log.info("fetching MNIST, %s: exit code %s", words[0], code)
    return code == 0


def _main(words: list[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    match words:
        case ["probe", address]:
            return _probe(address)
        case ["download", address, folder]:
            return _download(address, folder)
        case _:
            return 2


def _end_with_parent() -> None:
    os.read(0, 1)  # standard input; returns when the other end of the pipe is closed
    os._exit(PARENT_GONE)


def _probe(address: str) -> int:
    request = urllib.request.Request(f"{address}train-labels-idx1-ubyte.gz", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS):
            return 0
    except (OSError, ValueError):
        return 1


def _download(address: str, folder: str) -> int:
    from torchvision import datasets

    class MNIST(datasets.MNIST):  # type: ignore[misc]  # its name is part of the layout
        mirrors: ClassVar = [address]
        resources: ClassVar = datasets.MNIST.resources[:2]  # training set only

    socket.setdefaulttimeout(STALL_SECONDS)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            MNIST(folder, train=True, download=True)
    except (OSError, RuntimeError, ValueError, EOFError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
