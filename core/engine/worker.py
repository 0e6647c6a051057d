"""A worker process: one device, one job at a time, events over a pipe.

Started by the engine as `python -m core.engine.worker`, never by `multiprocessing`, which would run
the web app's entry script again. Commands come over standard input, events leave over what was
standard output; whatever a library prints goes to standard error, which is the server's log.
When standard input closes, the engine is gone: the process ends at once, with its data loaders.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from msgspec.structs import replace

from core.activities import ActivitySettings
from core.context import Context, Wish
from core.data.digits import Digits, load_digits
from core.engine.wire import (
    Ended,
    Hello,
    Quit,
    Run,
    Said,
    Sender,
    Steer,
    received_by_worker,
)
from core.events import PROTOCOL, AnyEvent, Failed, Read, Result, Stopped
from core.problems import Notice, Problem
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.telemetry.meter import Meter, open_meter
from core.telemetry.readings import Machine, Reading

REPORT_SECONDS = 0.5  # live readings leave in batches this far apart

log = logging.getLogger("worker")


class Worker:
    """Takes jobs from the engine and runs them one after another on one device."""

    def __init__(self, commands: IO[bytes], events: IO[bytes], *, gpu_uuid: str | None) -> None:
        self._commands = commands
        self._sender = Sender(events)
        self._gpu_uuid = gpu_uuid
        self._settings = LabSettings.load()
        self._jobs: queue.SimpleQueue[Run | Quit] = queue.SimpleQueue()
        self._wishes: dict[str, Wish] = {}
        self._current = ""
        self._began = 0.0  # when the current job began, on the meter's clock
        self._unsent: list[Reading] = []
        self._sent_at = 0.0

    def serve(self) -> None:
        """Run jobs until told to quit, or until one leaves the process unfit for another."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        with open_meter(
            gpu_uuid=self._gpu_uuid,
            period_seconds=self._settings.sample_seconds,
            on_reading=lambda reading: self._report(meter, reading),
        ) as meter:
            self._sender.send(self._hello())
            machine = describe_machine()
            while isinstance(command := self._jobs.get(), Run):
                ended = self._run(command, meter, machine)
                self._sender.send(ended)
                if not ended.healthy:
                    return

    def _listen(self) -> None:
        for command in received_by_worker(self._commands):
            match command:
                case Steer(job, wish):
                    if self._wishes.get(job) not in (Wish.STOP, Wish.FINISH):
                        self._wishes[job] = wish
                case Run() | Quit():
                    self._jobs.put(command)
        _end_process_group()

    def _hello(self) -> Hello:
        import torch  # here, so that the import's seconds are part of the start

        torch.set_num_threads(self._settings.cpu_threads)
        name = "cpu"
        if self._gpu_uuid is not None:
            # The engine made this card the only visible one, by its UUID.
            name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
        return Hello(protocol=PROTOCOL, torch=str(torch.__version__), device_name=name)

    def _run(self, command: Run, meter: Meter, machine: Machine) -> Ended:
        self._begin(command.job, meter)
        context = Context(
            device="cpu" if self._gpu_uuid is None else "cuda:0",
            cpu_threads=self._settings.cpu_threads,
            machine=machine,
            meter=meter,
            stopped=lambda: self._wishes.get(command.job) is Wish.STOP,
            digits=functools.partial(_digits, self._settings),
            finishing=lambda: self._wishes.get(command.job) is Wish.FINISH,
            paused=lambda: self._wishes.get(command.job) is Wish.PAUSE,
            keep=Path(command.keep),
        )
        healthy = True
        outcome: Result | Stopped | Failed = Failed(Notice("problem.activity_broke"))
        try:
            for event in _activity(command, context):
                if isinstance(event, Result | Stopped | Failed):
                    outcome = event
                else:
                    self._sender.send(Said(command.job, event))
        except Problem as problem:
            outcome = Failed(problem.notice)
        except MemoryError:
            log.exception("job %s ran out of memory", command.job)
            outcome, healthy = Failed(Notice("problem.out_of_memory")), False
        except Exception:
            # The traceback is for the log; the student gets the sentence. A CUDA context may be
            # poisoned now, so this process takes no other job.
            log.exception("job %s broke", command.job)
            healthy = False
        finally:
            self._current = ""
            self._wishes.pop(command.job, None)
            _give_memory_back()
        return Ended(command.job, outcome, healthy)

    def _begin(self, job: str, meter: Meter) -> None:
        self._began = meter.seconds
        self._unsent = []
        self._current = job

    def _report(self, meter: Meter, reading: Reading) -> None:
        """Called by the sampler's thread; the live readings of the running job go out."""
        if not self._current:
            return
        self._unsent.append(replace(reading, seconds=reading.seconds - self._began))
        now = time.monotonic()
        if now - self._sent_at < REPORT_SECONDS:
            return
        unsent, self._unsent, self._sent_at = self._unsent, [], now
        event = Read(meter.current_section, tuple(unsent), meter.absences)
        self._sender.send(Said(self._current, event))


def _activity(command: Run, context: Context) -> Iterator[AnyEvent]:
    run = _named(command.entry)
    settings_type = cast(type[ActivitySettings], _named(command.settings_type))
    return cast(Iterator[AnyEvent], run(settings_type.parse(command.settings), context))


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@functools.cache
def _digits(settings: LabSettings) -> Digits:
    return load_digits(settings)


def _give_memory_back() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _end_process_group() -> None:
    """End this process and the loaders it forked; the engine made it the leader of its group."""
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="core.engine.worker")
    parser.add_argument("--gpu-uuid", help="the only card that is visible here; none: the CPU")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s worker %(process)d %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends us
    if hasattr(os, "nice"):
        os.nice(5)  # the pages of the whole class go before one student's training
    commands = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        Worker(commands, events, gpu_uuid=arguments.gpu_uuid).serve()
    except (BrokenPipeError, msgspec.DecodeError):
        log.warning("the engine is gone or speaks another protocol")
    _end_process_group()


if __name__ == "__main__":
    main()
