"""`python -m core preflight` as a teacher and a script use it."""

from __future__ import annotations

import json

import jsonschema
import pytest

from core.__main__ import main
from core.preflight import run
from core.preflight.export import SCHEMA
from core.preflight.gate import Gate, Suite
from core.texts import texts
from tests.preflight.little_gates import HERE

EN = texts("en")
COMMAND = ["preflight", "speech", "--device", "cpu", "--lang", "en"]


@pytest.fixture
def gates(monkeypatch):
    """The suite "speech" with little gates: one that is amber, one that crashes."""
    amber = Gate("G1", f"{HERE}:fine", 60)
    red = Gate("G2", f"{HERE}:crashes", 60)
    little = Suite("speech", f"{HERE}:Bench", (amber, red))
    monkeypatch.setattr(run, "SPEECH", little)


def test_each_gate_is_one_json_object_a_line_and_nothing_else_is_printed(gates, capsys):
    assert main([*COMMAND, "--json"]) == 1
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["gate"], line["colour"]) for line in lines] == [("G1", "amber"), ("G2", "red")]
    for line in lines:
        jsonschema.validate(line, json.loads(SCHEMA.read_text("utf-8")))
    assert "a library says hello" in err


def test_without_a_red_light_the_exit_code_is_0_and_a_report_can_be_kept(gates, capsys, tmp_path):
    report = tmp_path / "report.html"
    assert main([*COMMAND, "--gates", "g1", "--html", str(report)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"! {EN('preflight.colour.amber')}")
    assert "G1" in out[0]
    assert EN("preflight.not_yet") in out[1], "what to do"
    assert EN("preflight.verdict.partial") in out
    assert EN("gate.G1.title") in report.read_text("utf-8")


def test_as_an_activity_it_tells_the_same_lines_at_its_end(gates, capsys):
    assert main(["run", "preflight-speech", "--device", "cpu", "--lang", "en"]) == 0
    out = capsys.readouterr().out
    assert EN("preflight.colour.red") in out
    assert EN.count("preflight.verdict.red", 1) in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "classroom, speech"),
        (["car"], "classroom, speech"),
        (["speech", "--gates", "G9"], "G5b"),
        (["classroom", "--students", "0"], "200"),
        (["speech", "--branches", "2"], "--branch"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(words, said, capsys):
    assert main(["preflight", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err
