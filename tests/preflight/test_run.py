"""A suite goes on whatever its gates do, and each of them ends as an outcome of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from core.activities import ACTIVITIES, ClassroomSettings, SpeechSettings
from core.context import never
from core.events import AnyEvent, Judged, Progressed, Result, Staged, Stopped
from core.preflight.gate import Colour, Outcome, PreflightResult, Suite
from core.preflight.run import run_suite
from core.preflight.suites import SUITES
from core.problems import Notice, Problem
from tests.preflight.little_gates import LittleSettings, context, suite


def events_of(
    some: Suite, gates: str = "all", *, stopped: Callable[[], bool] = never
) -> list[AnyEvent]:
    return list(run_suite(some, LittleSettings(gates), context(stopped)))


def outcomes(events: list[AnyEvent]) -> dict[str, Outcome]:
    return {event.outcome.gate: event.outcome for event in events if isinstance(event, Judged)}


def test_gates_are_judged_in_order_and_the_result_holds_them_all():
    events = events_of(suite("good", "poor"))
    judged = outcomes(events)
    assert {gate: one.colour for gate, one in judged.items()} == {
        "good": Colour.GREEN,
        "poor": Colour.RED,
    }
    assert isinstance(events[-1], Result)
    result = msgspec.convert(events[-1].values, PreflightResult)
    assert [one.gate for one in result.gates] == ["good", "poor"]
    assert result.gates[0].evidence[-1].png == b"\x89PNG", "bytes come back as they were"
    assert result.cpu == result.device_name == "Test CPU"
    assert "torch" in result.versions


def test_what_a_gate_says_passes_but_its_progress_and_its_end_are_its_own():
    events = events_of(suite("good"))
    assert Staged("little.stage") in events
    assert [e for e in events if isinstance(e, Progressed)] == [Progressed(0, 1), Progressed(1, 1)]
    assert sum(isinstance(event, Result) for event in events) == 1


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("crashes", Notice("problem.gate_broke", {"what": "ZeroDivisionError: the very thing"})),
        ("leaves", Notice("problem.gate_broke", {"what": "SystemExit: 3"})),
        ("complains", Notice("problem.little", {"what": "salt"})),
        ("nowhere.at_all:gate", "ModuleNotFoundError"),
        ("core.preflight.gate:no_such_function", "AttributeError"),
        ("forgets", "ValidationError"),
    ],
)
def test_what_breaks_in_a_gate_is_its_red_in_its_own_words_and_the_suite_goes_on(gate, message):
    events = events_of(suite(gate, "good"))
    broken, good = outcomes(events).values()
    assert broken.colour is Colour.RED
    if isinstance(message, Notice):
        assert broken.message == message
    else:
        assert message in str(broken.message.facts["what"])
    assert good.colour is Colour.GREEN
    assert isinstance(events[-1], Result)


def test_a_bench_that_cannot_be_made_is_a_red_of_every_gate():
    judged = outcomes(events_of(suite("good", "poor", bench="BrokenBench")))
    assert [one.message.facts["what"] for one in judged.values()] == [
        "OSError: no room for a bench"
    ] * 2


@pytest.mark.parametrize("gate", ["endless", "dawdles"])
def test_a_gate_far_over_its_budget_is_red_whether_it_ends_or_not(gate):
    judged = outcomes(events_of(suite(gate, "good", budget=1e-4)))
    assert judged[gate].colour is Colour.RED
    assert judged[gate].message.key == "problem.gate_too_slow"


def test_cancelled_in_a_gate_the_suite_is_stopped_and_that_gate_has_no_light():
    asked = itertools.count()
    events = events_of(suite("good", "endless", "poor"), stopped=lambda: next(asked) > 10)
    assert isinstance(events[-1], Stopped)
    assert list(outcomes(events)) == ["good"]


def test_one_gate_runs_alone_whatever_the_case_of_its_name():
    assert list(outcomes(events_of(suite("good", "poor"), "POOR"))) == ["poor"]


def test_a_gate_that_does_not_exist_is_answered_with_those_that_do():
    for settings, gates, known in (
        (ClassroomSettings, "packages,nothing", "packages, device"),
        (SpeechSettings, "G9", "G4, G4b"),
        (SpeechSettings, " , ", "G1, G2"),
    ):
        with pytest.raises(Problem) as caught:
            settings(gates=gates)
        assert known in str(caught.value.notice.facts["near"])
    assert SpeechSettings(gates="g4B").gates == "g4B"


@pytest.mark.parametrize("suite_id", SUITES)
def test_the_settings_of_a_suite_choose_among_its_gates(suite_id):
    some = SUITES[suite_id]
    settings = ACTIVITIES[f"preflight-{suite_id}"].settings
    for gate in some.gates:
        chosen = some.chosen(settings.parse({"gates": gate.id}).gates)  # type: ignore[attr-defined]
        assert chosen == (gate,)
