"""What is carried away: lines for programs, a report to print, and what changed since last time."""

from __future__ import annotations

import html
import json
import re

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from core.events import Result
from core.preflight.evidence import rows_of, spec_of, written
from core.preflight.export import SCHEMA, to_html, to_json, verdict
from core.preflight.gate import Colour, Curve, Outcome, PreflightResult
from core.preflight.history import compare, merged
from core.preflight.run import run_suite
from core.problems import Notice
from core.texts import CONTENT, Texts, texts
from tests.preflight.little_gates import LittleSettings, context, suite

GATES = ("good", "poor", "crashes")
WORDS = {
    **{
        f"gate.{gate}.{what}": f"{gate} {what} <&>"
        for gate in GATES
        for what in ("title", "checks", "skipped")
    },
    "little.good": "Ran {ran} time.",
    "little.poor": "Poor, <b>really</b>.",
    "little.hint": "Do better.",
    "little.stage": "working",
    **{
        f"little.{name}": f"the {name}"
        for name in ("figure", "table", "curve", "picture", "a", "b", "x", "y", "line")
    },
}


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """English, with words for the gates of the tests."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "en").mkdir()
    for path in (CONTENT / "en").glob("*.po"):
        (folder / "en" / path.name).symlink_to(path)
    lines = "".join(f'msgid "{key}"\nmsgstr "{text}"\n\n' for key, text in WORDS.items())
    (folder / "en" / "little.po").write_text(f'msgid ""\nmsgstr ""\n\n{lines}')
    return Texts("en", folder)


@pytest.fixture(scope="module")
def result() -> PreflightResult:
    *_, last = run_suite(suite(*GATES), LittleSettings(), context())
    assert isinstance(last, Result)
    return replace(msgspec.convert(last.values, PreflightResult), suite="classroom")


def test_every_line_is_an_object_of_the_schema_whatever_the_evidence(result, say):
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    whole = json.loads(to_json(result, {}, say))
    for line in whole["gates"]:
        check.validate(line)
    good, poor, crashed = whole["gates"]
    assert good["message"] == "Ran 1 time."
    assert [piece["type"] for piece in good["evidence"]] == ["figure", "table", "curve", "picture"]
    assert good["evidence"][1]["rows"][0][1] is None, "JSON knows no NaN"
    assert (poor["colour"], poor["hint"]) == ("red", "Do better.")
    assert "ZeroDivisionError" in crashed["message"]
    for broken in ({**poor, "colour": "blue"}, {k: v for k, v in poor.items() if k != "hint"}):
        with pytest.raises(jsonschema.ValidationError):
            check.validate(broken)


def test_the_report_needs_no_other_file_and_holds_all_evidence(result, say):
    text = to_html(result, (), {"students": 30}, say)
    assert not re.search(r"<script|<link|src='(?!data:)|url\(", text)
    for word in ("Ran 1 time.", "Do better.", "students = 30", "the figure", "<svg", "data:image"):
        assert word in text
    assert html.escape(say("gate.good.title")) in text
    assert "<b>really</b>" not in text
    assert text.count("<section id=") == len(GATES)


def test_numbers_keep_five_figures_and_small_ones_their_power_of_ten():
    vi, en = texts("vi"), texts("en")
    assert written(1.0002e-6, "", vi) == "1,0002 × 10⁻⁶"
    assert written(1e-4, "", en) == written(9.999999e-5, "", en) == "10⁻⁴"
    assert written(758.753, "", vi) == "758,75"
    assert written(0.0361, "", en) == "0.0361"
    assert written(534_081, "", en) == "534,081"
    assert written(True, "", en) == en("preflight.yes")
    assert written(21.3, "seconds", vi) == "21,3 s"
    assert written(float("nan"), "", vi) == "NaN"
    assert written("gate.need.gpu", "", en) == en("gate.need.gpu")
    assert written(None, "ms", en) == "–"


def test_a_curve_has_one_spec_and_a_logarithmic_one_shows_what_it_can(say):
    curve = Curve("little.curve", "little.x", "little.y", (0.0, 1.0), {"little.line": (0.0, 2.0)})
    assert spec_of(curve, say) is spec_of(replace(curve, lines={"little.line": (1.0, 5.0)}), say)
    assert len(rows_of(curve, say)) == 2
    assert [row["value"] for row in rows_of(replace(curve, logarithmic=True), say)] == [2.0]


def outcome(gate: str, colour: Colour, seconds: float = 1.0) -> Outcome:
    return Outcome(gate, colour, seconds, 10.0, Notice("little.poor"))


def ran(*outcomes: Outcome) -> PreflightResult:
    return PreflightResult("little", outcomes, "2026-11-30T08:00:00+07:00", {})


def test_a_gate_run_alone_replaces_its_own_light_and_only_that_is_compared():
    before = ran(outcome("a", Colour.RED), outcome("b", Colour.GREEN))
    alone = ran(outcome("a", Colour.GREEN))
    latest = merged([alone, before])
    assert latest is not None
    assert {one.gate: one.colour for one in latest.gates} == {
        "a": Colour.GREEN,
        "b": Colour.GREEN,
    }
    (change,) = compare(latest, merged([before]))
    assert (change.gate, change.before, change.after) == ("a", Colour.RED, Colour.GREEN)


def test_a_time_is_told_only_where_it_is_another_one():
    def changes(before: float, after: float) -> int:
        one, other = (ran(outcome("a", Colour.GREEN, time)) for time in (after, before))
        return len(compare(one, other))

    assert changes(10.0, 20.0) == changes(20.0, 10.0) == 1
    assert changes(10.0, 12.0) == changes(0.01, 0.05) == 0
    assert compare(ran(), None) == ()


def test_the_verdict_turns_on_red_alone(say):
    for colours, key in (
        ([Colour.GREEN] * 9, "preflight.verdict.green"),
        ([Colour.GREEN] * 8, "preflight.verdict.partial"),
        ([Colour.GREEN] * 8 + [Colour.NOT_JUDGED], "preflight.verdict.no_red"),
        ([], "preflight.verdict.none"),
    ):
        ended = [outcome("a", colour) for colour in colours]
        assert verdict(ended, say, suite="speech") == say(key)
    assert "2" in verdict([outcome("a", Colour.RED)] * 2, say, suite="speech")
