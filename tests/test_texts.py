"""The words: complete in both languages, all used, and filled the way each reader writes."""

import ast
import functools
import re
import string
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.engine.view import JobState
from core.problems import Notice
from core.texts import CONTENT, LANGUAGES, MissingText, Texts, read_labels, texts

ROOT = Path(__file__).parent.parent
SOURCES = [
    *ROOT.glob("streamlit_app.py"),
    *(ROOT / "pages").glob("*.py"),
    *(ROOT / "core").rglob("*.py"),
]
ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_-]+)+")
LABELS = {language: read_labels(language, CONTENT) for language in LANGUAGES}
SPACES = {key.split(".")[0] for key in LABELS["vi"]}  # "home", "problem", "stage" and so on


def prose_names(language: str) -> set[str]:
    folder = CONTENT / language
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def gaps(forms: tuple[str, ...]) -> set[tuple[str, str]]:
    """(name, how it is written) of every gap."""
    return {
        (name, how or "")
        for form in forms
        for _, name, how, _ in string.Formatter().parse(form)
        if name is not None
    }


@functools.cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """(where, node) for every node of the code."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def constants() -> Iterator[tuple[str, str]]:
    """(where, string) for every whole string of the code, names of files left out."""
    pieces = {
        id(piece) for _, node in nodes() if isinstance(node, ast.JoinedStr) for piece in node.values
    }
    for where, node in nodes():
        if not isinstance(node, ast.Constant) or id(node) in pieces:
            continue
        if isinstance(node.value, str) and not node.value.endswith(".css"):
            yield where, node.value


def put_together() -> Iterator[tuple[str, re.Pattern[str]]]:
    """(where, what it may become) for every f-string that begins like an id: f"stage.{name}"."""
    for where, node in nodes():
        if not isinstance(node, ast.JoinedStr):
            continue
        parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        if parts[0] and ID.match(parts[0] + "x") and parts[0].split(".")[0] in SPACES:
            yield where, re.compile("".join("[^.]+" if p is None else re.escape(p) for p in parts))


def calls() -> Iterator[tuple[str, str, ast.expr]]:
    """(where, what is called, first argument) for calls that name a text."""
    for where, node in nodes():
        if isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func)
            if name in ("say", "say.count", "say.prose", "Problem", "Notice", "Staged"):
                yield where, name, node.args[0]


def test_both_languages_hold_the_same_ids():
    assert LABELS["vi"].keys() == LABELS["en"].keys()


def test_both_languages_leave_the_same_gaps():
    shared = LABELS["vi"].keys() & LABELS["en"].keys()
    different = {key for key in shared if gaps(LABELS["vi"][key]) != gaps(LABELS["en"][key])}
    assert not different


def test_both_languages_tell_the_same_prose():
    assert prose_names("vi") == prose_names("en")


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty(language):
    assert not [key for key, forms in LABELS[language].items() if not all(map(str.strip, forms))]
    assert not [
        name
        for name in prose_names(language)
        if not (CONTENT / language / name).read_text("utf-8").strip()
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_are_composed_unicode_so_that_accents_never_fall_off(language):
    for path in [*(CONTENT / language).rglob("*.po"), *(CONTENT / language).rglob("*.md")]:
        assert unicodedata.is_normalized("NFC", path.read_text("utf-8")), path


def test_every_id_in_the_code_has_its_text():
    missing = {
        f"{where} {text}"
        for where, text in constants()
        if ID.fullmatch(text) and text.split(".")[0] in SPACES and text not in LABELS["vi"]
    }
    assert not missing


def test_every_text_that_a_call_names_is_there():
    missing = set()
    for where, name, argument in calls():
        if isinstance(argument, ast.Constant):
            known = name == "say.prose" and f"{argument.value}.md" in prose_names("vi")
            if not known and argument.value not in LABELS["vi"]:
                missing.add(f"{where} {name}({argument.value!r})")
    assert not missing


def test_every_id_that_code_puts_together_can_become_one_that_exists():
    unfit = {
        f"{where} {pattern.pattern}"
        for where, pattern in put_together()
        if not any(map(pattern.fullmatch, LABELS["vi"]))
    }
    assert not unfit


def test_no_text_is_left_unused():
    used = {text for _, text in constants()}
    patterns = [pattern for _, pattern in put_together()]
    unused = {
        key
        for key in LABELS["vi"].keys() - used
        if not any(pattern.fullmatch(key) for pattern in patterns)
    }
    assert not unused


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_state_of_a_job_has_a_word(language, state):
    assert texts(language).has(f"job.state.{state}")


def write(folder: Path, language: str, name: str, text: str) -> None:
    (folder / language).mkdir(parents=True, exist_ok=True)
    (folder / language / name).write_text(text, "utf-8")


WORDS = """
msgid "absent.value"
msgstr "nothing"
msgid "absent.mig"
msgstr "the card is cut in slices"
msgid "unit.seconds"
msgstr "{value} s"
msgid "place"
msgstr "Place {place} of {of}"
msgid "wait"
msgstr "About {wait:seconds}, because {why:text}"
msgid "done"
msgid_plural "done"
msgstr[0] "{n} part done"
msgstr[1] "{n} parts done"
"""


@pytest.fixture
def say(tmp_path):
    write(tmp_path, "en", "words.po", WORDS)
    return Texts("en", tmp_path)


def test_gaps_are_filled_with_what_the_caller_gives(say):
    assert say("place", place=3, of=1200) == "Place 3 of 1,200"


def test_a_gap_can_say_how_a_number_is_written_or_name_another_text(say):
    assert (
        say("wait", wait=3.25, why="absent.mig") == "About 3.2 s, because the card is cut in slices"
    )


def test_braces_in_a_fact_stay_as_they_are(say):
    assert say("place", place="{of}", of="{0}") == "Place {of} of {0}"


def test_english_counts_one_part_and_several_parts(say):
    assert [say.count("done", n) for n in (0, 1, 2)] == [
        "0 parts done",
        "1 part done",
        "2 parts done",
    ]


def test_a_notice_is_told_with_its_facts(say):
    assert say.notice(Notice("place", {"place": 1, "of": "two"})) == "Place 1 of two"


def test_a_missing_text_fails_a_test(say):
    with pytest.raises(MissingText, match="no text 'plaec' in 'en'"):
        say("plaec")


def test_a_missing_fact_fails_a_test(say):
    with pytest.raises(MissingText, match="'place' needs the fact 'of'"):
        say("place", place=3)


@pytest.mark.filterwarnings("ignore::core.texts.MissingText")
def test_in_class_a_missing_text_shows_its_id_and_is_logged(say, caplog):
    assert say("plaec") == "plaec"
    assert say("place", place=3) == "Place 3 of …"
    assert say.prose("part9/intro") == "part9/intro"
    assert "no text 'plaec' in 'en'" in caplog.text


@pytest.mark.parametrize("second", ["words.po", "more.po"])
def test_an_id_that_stands_twice_is_refused(tmp_path, second):
    once = 'msgid "a.b"\nmsgstr "one"\n'
    write(tmp_path, "en", "words.po", once * 2 if second == "words.po" else once)
    if second != "words.po":
        write(tmp_path, "en", second, once)
    with pytest.raises(ValueError, match=r"stand twice in .*: a\.b"):
        read_labels("en", tmp_path)


def test_an_unknown_language_is_refused():
    with pytest.raises(ValueError, match="'fr'"):
        texts("fr")


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("vi", ["37,5", "60.000", "0,23", "2"]),
        ("en", ["37.5", "60,000", "0.23", "2"]),
    ],
)
def test_numbers_are_written_as_the_reader_writes_them(language, expected):
    say = texts(language)
    assert [say.number(value) for value in (37.51, 60_000, 0.2301, 2.0)] == expected


@pytest.mark.parametrize(
    ("seconds", "vietnamese", "english"),
    [
        (0.234, "0,23 s", "0.23 s"),
        (37.5, "37,5 s", "37.5 s"),
        (59.97, "1 phút 0 s", "1 min 0 s"),
        (65, "1 phút 5 s", "1 min 5 s"),
        (7_840, "2 giờ 10 phút", "2 h 10 min"),
        (None, "không đo được", "not measured"),
    ],
)
def test_seconds_turn_into_minutes_and_hours(seconds, vietnamese, english):
    assert texts("vi").seconds(seconds) == vietnamese
    assert texts("en").seconds(seconds) == english


def test_memory_is_said_in_mib_and_from_1024_in_gib():
    assert [texts("vi").mib(value) for value in (497.3, 1_234.0)] == ["497 MiB", "1,21 GiB"]


def test_dates_are_written_in_the_readers_language():
    assert texts("vi").date("2026-01-31") == "31 tháng 1, 2026"
    assert texts("en").date("2026-01-31") == "31 January 2026"


def test_what_was_not_measured_says_so_and_is_never_zero():
    say = texts("en")
    for write_value in (say.number, say.seconds, say.ms, say.percent, say.mib, say.watts, say.date):
        assert write_value(None) == "not measured"
