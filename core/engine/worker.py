"""A worker process: one device, one run at a time, events over a pipe.

A run serves one job, or several that go together. Where a run of several breaks, the process ends
without a word on those that have no outcome yet; the engine then tries each of them alone.

Started by the engine as `python -m core.engine.worker`, never by `multiprocessing`, which would run
the web app's entry script again. Commands come over standard input, events leave over what was
standard output; whatever a library prints goes to standard error, which is the server's log.
When standard input closes, the engine is gone: the process ends at once, with its data loaders.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from msgspec.structs import replace

from core.activities import ActivitySettings
from core.context import Context, Share, Wish
from core.data.digits import Digits, load_digits
from core.engine.holdings import Held
from core.engine.wire import (
    Drop,
    Ended,
    Hello,
    Holds,
    JobOrder,
    Quit,
    Run,
    Said,
    Sender,
    Steer,
    received_by_worker,
)
from core.events import PROTOCOL, AnyEvent, Failed, Read, Result, Stopped
from core.models.in_memory import models_in_memory
from core.problems import Notice, Problem
from core.settings import LabSettings
from core.telemetry.machine import describe_machine
from core.telemetry.meter import Meter, open_meter
from core.telemetry.readings import Machine, Reading
from core.telemetry.torch_memory import TorchMemory, TorchReading, live_tensors

Outcome = Result | Stopped | Failed

AT_ONCE_SECONDS = 0.02  # the engine answers an outcome with the next run, where one waits
REST_SECONDS = 0.5  # without work, then a worker counts what it holds
REPORT_SECONDS = 0.5  # live readings leave in batches this far apart

log = logging.getLogger("worker")


class Worker:
    """Takes runs from the engine and does one after another on one device."""

    def __init__(self, commands: IO[bytes], events: IO[bytes], *, gpu_uuid: str | None) -> None:
        self._commands = commands
        self._sender = Sender(events)
        self._gpu_uuid = gpu_uuid
        self._settings = LabSettings.load()
        self._runs: queue.SimpleQueue[Run | Drop | Quit] = queue.SimpleQueue()
        self._wishes: dict[str, Wish] = {}
        self._unfinished: tuple[str, ...] = ()  # jobs of the run that have no outcome yet
        self._last: tuple[str, Outcome] | None = None  # the outcome that came last
        self._began = 0.0  # when the run began, on the meter's clock
        self._unsent: list[Reading] = []
        self._sent_at = 0.0

    def serve(self) -> None:
        """Run until told to quit, or until a run leaves the process unfit for another."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        with open_meter(
            gpu_uuid=self._gpu_uuid,
            period_seconds=self._settings.sample_seconds,
            on_reading=lambda reading: self._report(meter, reading),
        ) as meter:
            self._sender.send(self._hello())
            machine = describe_machine()
            command = self._rest()
            while not isinstance(command, Quit):
                if isinstance(command, Drop):
                    self._drop_models()
                    command = self._runs.get()
                elif self._run(command, meter, machine):
                    command = self._next_after(command)
                else:
                    return

    def _next_after(self, done: Run) -> Run | Drop | Quit:
        """The next command. Memory is given back before it, unless more of the same waits already:
        with a large library loaded, that takes longer than a picture (0.2 s)."""
        command: Run | Drop | Quit | None = None
        if done.together:
            with contextlib.suppress(queue.Empty):
                command = self._runs.get(timeout=AT_ONCE_SECONDS)
        if isinstance(command, Run) and command.entry == done.entry:
            return command
        _give_memory_back()
        return self._rest() if command is None else command

    def _rest(self) -> Run | Drop | Quit:
        """The next command; what this process holds is told when it has rested for a moment."""
        with contextlib.suppress(queue.Empty):
            return self._runs.get(timeout=REST_SECONDS)
        self._sender.send(Holds(self._held()))
        return self._runs.get()

    def _drop_models(self) -> None:
        models_in_memory().drop_all()
        _digits.cache_clear()
        _clear_workspaces()
        _give_memory_back()
        self._sender.send(Holds(self._held()))

    def _held(self) -> Held:
        tensors, tensors_mib = live_tensors("cpu" if self._gpu_uuid is None else "cuda")
        card = TorchReading() if self._gpu_uuid is None else TorchMemory(self._gpu_uuid).read()
        return Held(
            models=models_in_memory().names,
            tensors=tensors,
            tensors_mib=tensors_mib,
            reserved_mib=card.reserved_mib,
            allocated_mib=card.allocated_mib,
        )

    def _listen(self) -> None:
        for command in received_by_worker(self._commands):
            match command:
                case Steer(job, wish):
                    if wish is Wish.STOP or self._wishes.get(job) not in (Wish.STOP, Wish.FINISH):
                        self._wishes[job] = wish
                case Run() | Drop() | Quit():
                    self._runs.put(command)
        _end_process_group()

    def _hello(self) -> Hello:
        import torch  # here, so that the import's seconds are part of the start

        torch.set_num_threads(self._settings.cpu_threads)
        name = "cpu"
        if self._gpu_uuid is not None:
            # The engine made this card the only visible one, by its UUID.
            name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
        return Hello(protocol=PROTOCOL, torch=str(torch.__version__), device_name=name)

    def _run(self, command: Run, meter: Meter, machine: Machine) -> bool:
        """Do a run to its end and tell each job's outcome; whether this process is fit for more."""
        jobs = [order.job for order in command.jobs]
        self._begin(jobs, meter)
        problem, fit = Notice("problem.activity_broke"), True
        try:
            for job, event in self._events(command, meter, machine):
                self._tell(job, event)
        except Problem as raised:  # of the whole run; one job's own comes as its outcome
            problem = raised.notice
        except MemoryError:
            log.exception("run of %s ran out of memory", jobs)
            problem, fit = Notice("problem.out_of_memory"), False
        except Exception:
            # The traceback is for the log; the student gets the sentence. A CUDA context may be
            # poisoned now, so this process takes no other run.
            log.exception("run of %s broke", jobs)
            fit = False
        left, self._unfinished = self._unfinished, ()
        for job in jobs:
            self._wishes.pop(job, None)
        if left and not fit and len(jobs) > 1:
            return False
        for job in left:
            self._sender.send(Ended(job, Failed(problem), fit))
        if self._last is not None:
            self._sender.send(Ended(*self._last, fit))
        return fit

    def _tell(self, job: str, event: AnyEvent) -> None:
        """Send an event of a run. The outcome of its last job waits until the run has ended: the
        engine takes this worker for idle then."""
        if job not in self._unfinished:
            log.error("the run speaks of job %s, which is none of its unfinished ones", job)
        elif not isinstance(event, Outcome):
            self._sender.send(Said(job, event))
        else:
            self._unfinished = tuple(name for name in self._unfinished if name != job)
            if self._unfinished:
                self._sender.send(Ended(job, event, healthy=True))
            else:
                self._last = job, event

    def _events(
        self, command: Run, meter: Meter, machine: Machine
    ) -> Iterator[tuple[str, AnyEvent]]:
        """What happens in a run, each event with its job."""
        entry = _named(command.entry)
        settings_type = cast(type[ActivitySettings], _named(command.settings_type))
        context = functools.partial(
            Context,
            device="cpu" if self._gpu_uuid is None else "cuda:0",
            cpu_threads=self._settings.cpu_threads,
            machine=machine,
            meter=meter,
            digits=functools.partial(_digits, self._settings),
            lab=self._settings,
        )
        if command.together:
            shares = [
                Share(order.job, settings_type.parse(order.settings), self._asks(order, Wish.STOP))
                for order in command.jobs
            ]
            # Stopped when all of them are; nobody pauses or finishes what serves others too.
            of_all = context(stopped=lambda: all(share.stopped() for share in shares))
            yield from entry(shares, of_all)
        else:
            (order,) = command.jobs
            of_one = context(
                stopped=self._asks(order, Wish.STOP),
                finishing=self._asks(order, Wish.FINISH),
                paused=self._asks(order, Wish.PAUSE),
                keep=Path(order.keep),
            )
            for event in entry(settings_type.parse(order.settings), of_one):
                yield order.job, event

    def _asks(self, order: JobOrder, wish: Wish) -> Callable[[], bool]:
        return lambda: self._wishes.get(order.job) is wish

    def _begin(self, jobs: Sequence[str], meter: Meter) -> None:
        self._began = meter.seconds
        self._unsent = []
        self._last = None
        self._unfinished = tuple(jobs)

    def _report(self, meter: Meter, reading: Reading) -> None:
        """Called by the sampler's thread; live readings go out to all that the run still serves."""
        jobs = self._unfinished
        if not jobs:
            return
        self._unsent.append(replace(reading, seconds=reading.seconds - self._began))
        now = time.monotonic()
        if now - self._sent_at < REPORT_SECONDS:
            return
        unsent, self._unsent, self._sent_at = self._unsent, [], now
        event = Read(meter.current_section, tuple(unsent), meter.absences)
        for job in jobs:
            self._sender.send(Said(job, event))


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


def _clear_workspaces() -> None:
    """Let go of what cuBLAS keeps to calculate in (33 MiB on an H200), where CUDA has started."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # as torch.compile does
        if clear is not None:
            clear()


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
