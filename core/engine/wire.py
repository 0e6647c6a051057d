"""The pipe between the engine and a worker process: framed, typed MessagePack messages.

A frame is four bytes of length (big endian) and a body of one message. Nothing is pickled, and a
body that is not one of the messages below is refused. Both ends compare `PROTOCOL` at the start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from core.context import Wish
from core.engine.holdings import Held
from core.events import AnyEvent, Failed, Result, Stopped

MAX_FRAME = 64 * 2**20  # bytes; a picture grid is far below, a torn stream far above


class Message(msgspec.Struct, frozen=True, tag_field="message", tag=str.lower):
    """Base of all messages, in either direction."""


# engine -> worker


class JobOrder(msgspec.Struct, frozen=True):
    """One job of a run."""

    job: str
    settings: dict[str, Any]
    keep: str  # the student's own folder on disk


class Run(Message, frozen=True):
    """Run these jobs. `entry` and `settings_type` are "module:name" of this code base's own.

    Not `together`: there is one job, and `entry` is the generator for one.
    """

    entry: str
    settings_type: str
    jobs: tuple[JobOrder, ...]
    together: bool = False


class Steer(Message, frozen=True):
    """What the student, or the engine, wishes of this running job."""

    job: str
    wish: Wish


class Drop(Message, frozen=True):
    """Let go of the models in memory, and say what is left; sent to an idle worker."""


class Quit(Message, frozen=True):
    """End the process; sent to an idle worker."""


# worker -> engine


class Hello(Message, frozen=True):
    """The worker is ready. `device_name` is "" where the promised card cannot be used."""

    protocol: int
    torch: str
    device_name: str


class Said(Message, frozen=True):
    """Something has happened inside a job."""

    job: str
    event: AnyEvent


class Holds(Message, frozen=True):
    """What the worker holds while it rests."""

    held: Held


class Ended(Message, frozen=True):
    """A job is over. Not `healthy`: this process must not get another run.

    The last job of a run ends when the run has; until then the worker takes no other one.
    """

    job: str
    outcome: Result | Stopped | Failed
    healthy: bool


ToWorker = Run | Steer | Drop | Quit
FromWorker = Hello | Said | Holds | Ended


class Sender:
    """Writes messages to a pipe, whole, from any thread."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, message: ToWorker | FromWorker) -> None:
        """Raises OSError (BrokenPipeError) if the other end is gone."""
        body = self._encoder.encode(message)
        with self._lock:
            self._pipe.write(len(body).to_bytes(4, "big") + body)
            self._pipe.flush()


def received_by_worker(pipe: IO[bytes]) -> Iterator[ToWorker]:
    """Messages from the engine until it closes the pipe."""
    decoder = msgspec.msgpack.Decoder(ToWorker)
    return (decoder.decode(body) for body in _frames(pipe))


def received_by_engine(pipe: IO[bytes]) -> Iterator[FromWorker]:
    """Messages from a worker until its end of the pipe closes, even in mid-frame.

    Raises msgspec.DecodeError or ValueError where the stream is not ours.
    """
    decoder = msgspec.msgpack.Decoder(FromWorker)
    return (decoder.decode(body) for body in _frames(pipe))


def _frames(pipe: IO[bytes]) -> Iterator[bytes]:
    while len(head := pipe.read(4)) == 4:
        length = int.from_bytes(head, "big")
        if length > MAX_FRAME:
            raise ValueError(f"a frame of {length} bytes is longer than any message")
        body = pipe.read(length)
        if len(body) < length:
            return
        yield body
