"""One worker process, seen from the engine's side: started, spoken to, and surely ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from core.engine.dispatcher import CPU
from core.engine.wire import FromWorker, Sender, ToWorker, received_by_engine
from core.settings import PREFIX, LabSettings

ROOT = Path(__file__).parents[2]  # the folder that holds core/, so that `-m core...` is found
FOR_WORKERS = (
    "data_dir",
    "cache_dir",
    "models_dir",
    "mini_turbo_dir",
    "prompt_rules",
    "offline",
    "devices",
    "cpu_threads",
    "train_slots",
    "sample_seconds",
    "database_url",  # preflight sees whether it answers
)
CODES = ("class_code", "teacher_code")  # of these a worker is told only that they are set
GOODBYE_SECONDS = 1.0  # from the last word of a worker to the end of its process

log = logging.getLogger(__name__)


class WorkerProcess:
    """A child process in a group of its own, and the thread that reads what it says.

    `on_message` is called for every message, in order, and then `on_gone(killed)` once, whatever
    the end was; both by the reading thread.
    """

    def __init__(
        self,
        device: str,
        settings: LabSettings,
        *,
        on_message: Callable[[FromWorker], None],
        on_gone: Callable[[bool], None],
    ) -> None:
        command = [sys.executable, "-m", "core.engine.worker"]
        if device != CPU:
            command += ["--gpu-uuid", device]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(device, settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # its group holds it and its data loaders, nobody else
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._events = self._process.stdin, self._process.stdout
        self._sender = Sender(self._commands)
        self._on_message, self._on_gone = on_message, on_gone
        self._thread = threading.Thread(target=self._listen, name=f"worker-{self.pid}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        """Tell the worker; one that is gone hears nothing, and `on_gone` will say so."""
        try:
            self._sender.send(message)
        except OSError:
            self.kill()

    def reap_if_dead(self) -> None:
        """End what a dead worker left behind: its loaders may hold the pipe open, and so hide it.

        Called every tick. The group is always ended before the process is reaped, while its id is
        still its own.
        """
        if self._process.returncode is None and _has_exited(self.pid):
            self.kill()

    def kill(self) -> None:
        """End the process and its group at once."""
        if self._process.returncode is not None:
            return
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):  # gone already, which is as good
                os.killpg(self.pid, signal.SIGKILL)
        else:
            self._process.kill()

    def wait(self, seconds: float) -> bool:
        """Whether the process is gone and reaped within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _listen(self) -> None:
        try:
            for message in received_by_engine(self._events):
                self._on_message(message)
        except (msgspec.DecodeError, ValueError):
            log.exception("worker %d does not speak our protocol", self.pid)
        deadline = time.monotonic() + GOODBYE_SECONDS
        while not _has_exited(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()  # its children too, whatever they hold; a process that has ended keeps its code
        code = self._process.wait()
        self._events.close()
        with contextlib.suppress(OSError):  # a last command may still be unsent
            self._commands.close()
        self._on_gone(code == -signal.SIGKILL)


def _environment(device: str, settings: LabSettings) -> dict[str, str]:
    """The server's environment, less its codes, with the one device that this worker may see."""
    codes = {PREFIX + name.upper(): "set" for name in CODES if getattr(settings, name)}
    kept = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    threads = str(settings.cpu_threads)
    ours = {
        PREFIX + name.upper(): str(value)
        for name in FOR_WORKERS
        if (value := getattr(settings, name)) is not None
    }
    return (
        kept
        | ours
        | codes
        | {
            "CUDA_VISIBLE_DEVICES": "" if device == CPU else device,
            "OMP_NUM_THREADS": threads,
            # Threads that spin while they wait for each other stall on cores that others use too.
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONUNBUFFERED": "1",
        }
    )


def _has_exited(pid: int) -> bool:
    """Whether our child has ended, without reaping it: its id stays its own until then."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
