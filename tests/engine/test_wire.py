"""The pipe between engine and workers: whole messages or none."""

from __future__ import annotations

import io

import msgspec
import pytest

from core.context import Wish
from core.engine.holdings import Held
from core.engine.wire import (
    MAX_FRAME,
    Drop,
    Ended,
    Hello,
    Holds,
    JobOrder,
    Message,
    Quit,
    Run,
    Said,
    Sender,
    Steer,
    received_by_engine,
    received_by_worker,
)
from core.events import Drawn, Failed, Progressed, Read
from core.problems import Notice
from core.telemetry.readings import Reading


def sent(*messages: Message) -> io.BytesIO:
    pipe = io.BytesIO()
    sender = Sender(pipe)
    for message in messages:
        sender.send(message)  # type: ignore[arg-type]
    pipe.seek(0)
    return pipe


def test_orders_reach_the_worker_as_they_were_sent():
    orders = (
        Run("module:run", "module:Settings", (JobOrder("j", {"steps": 20}, "folder"),)),
        Steer("j", Wish.STOP),
        Drop(),
        Quit(),
    )
    assert tuple(received_by_worker(sent(*orders))) == orders


def test_events_reach_the_engine_as_they_were_sent():
    said = (
        Hello(protocol=1, torch="2.9", device_name="cpu"),
        Holds(Held(models=("turbo",), tensors=3, tensors_mib=1.5)),
        Said("j", Progressed(1, 2, None)),
        Said("j", Drawn("grid", bytes(range(256)))),
        Said("j", Read("cpu", (Reading(0.5, cpu_percent=99.0, gpu_percent=None),))),
        Ended("j", Failed(Notice("problem.out_of_memory", {"n": 1})), healthy=False),
    )
    assert tuple(received_by_engine(sent(*said))) == said


def test_a_pipe_torn_in_mid_message_ends_after_the_last_whole_one():
    whole = sent(Said("j", Progressed(1, 2)), Said("j", Progressed(2, 2))).getvalue()
    received = list(received_by_engine(io.BytesIO(whole[:-3])))
    assert received == [Said("j", Progressed(1, 2))]


def test_what_is_not_a_message_is_refused():
    body = msgspec.msgpack.encode({"message": "run", "job": 7})
    pipe = io.BytesIO(len(body).to_bytes(4, "big") + body)
    with pytest.raises(msgspec.DecodeError):
        list(received_by_worker(pipe))


def test_a_length_beyond_any_message_is_refused_before_it_is_read():
    pipe = io.BytesIO((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="longer than any message"):
        list(received_by_engine(pipe))
