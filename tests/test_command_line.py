"""`python -m core` as a reader, a script and a terminal use it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import psutil
import pytest

from core.__main__ import activity_text, main
from core.activities import ACTIVITIES, ActivitySettings, CpuVsGpuResult, Limit
from core.activities.base import DecimalLimit, OneOf, TextLimit
from core.events import Result
from core.headless import result_text
from core.recordings import replays
from core.telemetry.readings import SummaryRow
from core.texts import LANGUAGES, texts

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "core"]


def started(*words, **how):
    return subprocess.Popen(
        [*COMMAND, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    )


def answered(*words):
    return subprocess.run(
        [*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def lines(kept):
    """The JSON lines of one whole run on the CPU, which also saves and records itself."""
    places = ("--save", str(kept / "saved"), "--record", str(kept / "mine.json"))
    process = answered("run", "cpu-vs-gpu", "--steps=20", "--device", "cpu", "--json", *places)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_a_run_tells_one_json_object_a_line_and_last_the_result(lines):
    kinds = [line["event"] for line in lines]
    assert kinds[0] == "staged"
    assert set(kinds) == {"staged", "progressed", "lost", "measured", "result"}
    assert kinds.index("result") == len(kinds) - 1


def test_the_result_holds_parameters_rows_and_speedup_side_by_side(lines):
    result = lines[-1]
    assert result["parameters"] == {"generator": 534_081, "discriminator": 138_817}
    assert [row["name"] for row in result["rows"]] == ["one_thread", "all_threads"]
    assert result["speedup"].keys() == {"whole", "compute"}
    assert result["settings"] == {"steps": 20, "seed": 0}
    assert result["machine"]["cpu"]


def test_save_keeps_the_result_and_a_table_of_each_section(lines, kept):
    saved = kept / "saved"
    assert json.loads((saved / "result.json").read_text("utf-8")) == lines[-1]
    for row in lines[-1]["rows"]:
        table = (saved / f"{row['name']}.csv").read_text("utf-8").splitlines()
        assert table[0].startswith("seconds,gpu_percent,")
        assert len(table) > 2


def test_record_writes_a_recording_that_the_pages_can_replay(lines, kept):
    (replay,) = [
        replay for replay in replays("cpu-vs-gpu", kept) if replay not in replays("cpu-vs-gpu")
    ]
    assert [recording.name for recording in replay.recordings] == ["one_thread", "all_threads"]
    assert replay.values["speedup"] == lines[-1]["speedup"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_sees_the_table_and_both_speedups_in_their_language(language, lines):
    line = lines[-1]
    values = {name: line[name] for name in CpuVsGpuResult.__struct_fields__}
    rows = msgspec.convert(line["rows"], tuple[SummaryRow, ...])
    say = texts(language)
    text = "\n".join(result_text(say, Result(rows, values), ACTIVITIES["cpu-vs-gpu"]))
    assert say.seconds(rows[0].seconds) in text
    assert say.number(534_081) in text
    assert say("cli.speedup_compute", times=line["speedup"]["compute"]) in text
    assert say("cli.column.power") not in text, "a column without any figure is left out"


def test_a_run_without_json_shows_its_stages_apart_from_its_result():
    process = started("run", "cpu-vs-gpu", "--steps", "20", "--device", "cpu", "--lang", "en")
    first = process.stderr.readline().decode()
    interrupt(process)
    out, err = process.communicate(timeout=60)
    assert first.strip() == texts("en")("stage.digits")
    assert err.decode().splitlines()[-1] == texts("en")("cli.stopped")
    assert out == b""
    assert process.returncode == 130


def interrupt(process):
    """Ctrl-C in a terminal reaches the whole process group."""
    children = psutil.Process(process.pid).children(recursive=True)
    for one in (process, *children):
        os.kill(one.pid, signal.SIGINT)
    return children


def test_ctrl_c_stops_the_run_cleanly_and_leaves_no_process(tmp_path):
    record = tmp_path / "half.json"
    process = started(
        "run", "cpu-vs-gpu", "--steps", "200", "--device", "cpu", "--json", "--record", str(record)
    )
    events = (json.loads(line)["event"] for line in process.stdout)
    assert "progressed" in events  # reads on until the first one
    children = interrupt(process)
    assert children, "the loader's process runs at this moment"
    kinds = list(events)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert kinds[-1] == "stopped"
    assert "result" not in kinds
    assert err == b""
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert not record.exists(), "half a run is no recording"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "run"),
        (["run"], "cpu-vs-gpu"),
        (["run", "cpu-or-gpu"], "cpu-vs-gpu"),
        (["run", "cpu-vs-gpu", "--stesp", "20"], "--steps"),
        (["run", "cpu-vs-gpu", "--steps", "19"], "20"),
        (["run", "cpu-vs-gpu", "--steps", "201"], "200"),
        (["run", "cpu-vs-gpu", "--steps", "99999999999999999999"], "200"),
        (["run", "cpu-vs-gpu", "--steps", "2e1"], "2e1"),
        (["run", "cpu-vs-gpu", "--steps", "-20"], "20"),
        (["run", "cpu-vs-gpu", "--steps"], "--steps"),
        (["run", "cpu-vs-gpu", "--steps="], "--steps"),
        (["run", "cpu-vs-gpu", "--json=yes"], "--json"),
        (["run", "cpu-vs-gpu", "twenty"], "twenty"),
        (["run", "cpu-vs-gpu", "--device", "cuda:99"], "cpu"),
        (["run", "cpu-vs-gpu", "--device", "tpu"], "cpu"),
        (["list", "--all"], "--all"),
        (["list", "--lang", "fr"], "fr"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_bad_input_ends_with_code_2_and_one_sentence(words, said, language, capsys):
    assert main([*(() if "--lang" in words else ("--lang", language)), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err


@pytest.mark.parametrize("option", ["--save", "--record"])
def test_a_place_that_cannot_be_written_is_refused_before_the_run(option, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file" / "below", tmp_path if option == "--record" else "/dev/null"):
        process = answered("run", "cpu-vs-gpu", "--steps", "20", "--json", option, str(place))
        assert process.returncode == 2
        assert process.stdout == "", "no event: nothing had begun"
        assert len(process.stderr.splitlines()) == 1
        assert str(place) in process.stderr


def test_a_wrong_setting_of_the_lab_is_told_in_one_sentence(monkeypatch):
    monkeypatch.setenv("LAB_CPU_THREDS", "2")
    process = answered("run", "cpu-vs-gpu", "--steps", "20")
    assert process.returncode == 2
    assert "LAB_CPU_THREADS" in process.stderr
    assert len(process.stderr.splitlines()) == 1


def test_a_run_that_fails_ends_with_code_1_and_one_sentence(monkeypatch):
    monkeypatch.setenv("LAB_CPU_THREADS", "1")
    process = answered(
        "run", "cpu-vs-gpu", "--steps", "20", "--device", "cpu", "--json", "--lang", "en"
    )
    assert process.returncode == 1
    assert json.loads(process.stdout.splitlines()[-1])["event"] == "failed"
    assert process.stderr.strip() == texts("en")("problem.nothing_to_compare")


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["run", "--help"]], ids=" ".join)
def test_without_a_command_there_is_help(words, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    for word in ("list", "run ACTIVITY", "assets", "--device", "--record FILE", "--lang vi|en"):
        assert word in out


def told_of(rule):
    """What a reader has to know to keep to a rule."""
    match rule:
        case Limit(low, high) | DecimalLimit(low, high):
            return low, high
        case TextLimit(longest):
            return (longest,)
        case OneOf(names):
            return names


@pytest.mark.parametrize("language", LANGUAGES)
def test_help_of_an_activity_tells_text_and_choices_with_their_defaults(language, monkeypatch):
    class Settings(ActivitySettings, frozen=True):
        prompt: Annotated[str, TextLimit(300)] = "a red shoe"
        model: Annotated[str, OneOf(("little", "big"))] = "little"

    activity = dataclasses.replace(ACTIVITIES["cpu-vs-gpu"], settings=Settings)
    _, prompt, model = activity_text(activity, texts(language)).splitlines()
    assert "--prompt TEXT" in prompt
    assert "300" in prompt
    assert "a red shoe" in prompt
    assert "--model NAME" in model
    assert "little, big" in model


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_setting_that_means_something_else_in_an_activity_is_told_so_there(language):
    say = texts(language)
    pictures = activity_text(ACTIVITIES["make-images"], say)
    assert say("cli.setting.make-images.steps") in pictures
    assert say("cli.setting.steps") not in pictures
    assert say("cli.setting.steps") in activity_text(ACTIVITIES["cpu-vs-gpu"], say)


def test_list_shows_every_setting_with_range_and_default(capsys):
    assert main(["list", "--lang", "en"]) == 0
    told = capsys.readouterr().out.split("\n\n")  # an activity each
    for activity, out in zip(ACTIVITIES.values(), told, strict=True):
        assert out.startswith(f"{activity.id}:")
        for name, rule in activity.settings.rules().items():
            option = f"--{name.replace('_', '-')} "
            (line,) = [line for line in out.splitlines() if option in line]
            default = getattr(activity.settings(), name)
            for fact in (*told_of(rule), default):
                assert (fact if isinstance(fact, str) else texts("en").number(fact)) in line


def test_assets_says_which_digits_are_in_use_and_where(capsys):
    assert main(["assets", "--lang", "en"]) == 0
    out = capsys.readouterr().out
    assert texts("en")("data.source.widened") in out
    assert os.environ["LAB_CACHE_DIR"] in out
    assert "CC BY-SA" in out


def test_answers_that_need_no_computing_do_not_import_torch():
    question = """
import sys
from core.__main__ import main
for words in (["list"], ["help"], ["assets"], ["run", "cpu-vs-gpu", "--steps", "1"]):
    main(words)
assert "torch" not in sys.modules
"""
    process = subprocess.run(
        [sys.executable, "-c", question], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_a_reader_that_goes_away_ends_the_run_quietly():
    with started("run", "cpu-vs-gpu", "--steps", "20", "--device", "cpu", "--json") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The JSON lines of a short training, and the folder that it was saved in."""
    folder = tmp_path_factory.mktemp("trained")
    process = answered(
        *("run", "train-gan", "--epochs", "1", "--images-per-epoch", "1280", "--seed", "3"),
        *("--device", "cpu", "--json", "--save", str(folder)),
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()], folder


def test_a_training_tells_its_losses_and_scores_and_sums_up_its_epochs(trained):
    lines, folder = trained
    kinds = {line["event"] for line in lines}
    assert {"lost", "scored", "drawn", "measured", "result"} < kinds
    result = lines[-1]
    (epoch,) = result["epochs"]
    assert epoch["seconds"] > 0
    assert 0 <= epoch["readable"] <= 1
    assert epoch["digits_seen"] in range(11)
    assert [row["name"] for row in result["rows"]] == ["training"]
    names = {path.name for path in folder.iterdir()}
    assert {"grid.png", "strip.png", "animation.gif", "training.csv", "gan.npz"} < names


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_sees_every_epoch_and_what_went_wrong(language, trained):
    line = {**trained[0][-1], "trouble": "collapsed"}
    activity = ACTIVITIES["train-gan"]
    values = {name: line[name] for name in activity.result.__struct_fields__}
    rows = msgspec.convert(line["rows"], tuple[SummaryRow, ...])
    say = texts(language)
    text = "\n".join(result_text(say, Result(rows, values), activity))
    assert say.seconds(line["epochs"][0]["seconds"]) in text
    assert say("cli.trouble.collapsed") in text


@pytest.mark.parametrize("trouble", ["nan", "collapsed", "d_won"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_trouble_of_a_training_has_its_sentence(language, trouble):
    assert texts(language).has(f"cli.trouble.{trouble}")


def test_what_was_trained_and_saved_draws_and_can_be_looked_into(trained):
    _, folder = trained
    for words, picture in (
        (("draw-digits", "--count", "64"), "many.png"),
        (("draw-digits",), "walk.png"),
        (("look-inside", "--digit", "7"), "discriminator-2.png"),
    ):
        process = answered("run", *words, "--device", "cpu", "--lang", "en", "--save", str(folder))
        assert process.returncode == 0, process.stderr
        assert process.stdout.strip()
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_drawing_without_anything_trained_is_told_in_one_sentence(tmp_path):
    process = answered(
        *("run", "draw-digits", "--device", "cpu", "--lang", "en", "--save", str(tmp_path))
    )
    assert process.returncode == 1
    assert process.stdout == ""
    assert process.stderr.splitlines()[-1] == texts("en")("problem.nothing_trained")


@pytest.mark.parametrize(
    ("prompt", "decision", "code"),
    [("a computing class", "allow", 0), ("a license", "ask", 1), ("p u t i n", "refuse", 1)],
)
def test_check_prompt_tells_the_verdict_and_the_rule_that_decided(prompt, decision, code, capsys):
    assert main(["check-prompt", prompt, "--json"]) == code
    line = json.loads(capsys.readouterr().out)
    assert (line["event"], line["prompt"], line["decision"]) == ("result", prompt, decision)
    assert all((line[fact] is None) == (code == 0) for fact in ("rule", "kind", "step", "reason"))
    assert main(["check-prompt", *prompt.split(), "--lang=en"]) == code
    out = capsys.readouterr().out
    assert texts("en")(f"safety.decision.{decision}") in out
    assert (line["rule"] or "") in out


def test_check_prompt_without_a_word_is_bad_input(capsys):
    for words in ([], ["!?"]):
        assert main(["check-prompt", *words, "--lang=en"]) == 2
        assert capsys.readouterr().err.strip() == texts("en")("problem.prompt_missing")


def test_check_prompt_tells_of_a_broken_file_and_goes_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "rules.toml").write_text("allow = [", "utf-8")
    monkeypatch.setenv("LAB_PROMPT_RULES", str(tmp_path / "rules.toml"))
    assert main(["check-prompt", "obama"]) == 1
    assert str(tmp_path / "rules.toml") in capsys.readouterr().err
