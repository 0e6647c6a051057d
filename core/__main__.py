"""The same activities without a browser: `python -m core ...`.

Answers in the reader's language (`--lang vi|en`). Exit code 0: finished; 2: bad input, told in one
sentence on standard error; 1: the run failed; 130: stopped by Ctrl-C.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core.activities import ACTIVITIES, Activity, activity_named
from core.activities.base import DecimalLimit, Limit, OneOf, Rule, TextLimit
from core.headless import (
    BAD_INPUT,
    FAILED,
    FINISHED,
    INTERRUPTED,
    JsonTeller,
    Keeping,
    ScreenTeller,
    run_activity,
)
from core.problems import Problem
from core.settings import LabSettings
from core.texts import LANGUAGES, Texts, texts

# Name of an option -> what stands for its value in the help; "" where it takes none.
RUN_OPTIONS = {
    "device": "auto|cpu|cuda:N",
    "json": "",
    "save": "DIR",
    "record": "FILE",
    "debug": "",
}
PREFLIGHT_OPTIONS = {"device": "auto|cpu|cuda:N", "json": "", "html": "FILE", "debug": ""}
REPORT_OPTIONS = {"student": "TOKEN", "out": "FILE", "debug": ""}
PREFLIGHT = "preflight-"  # what the ids of its activities begin with
BRING = {"image": "FILE"}  # of the activities that look at a picture


def main(words: list[str]) -> int:
    """Do what the words of the command line say; returns the exit code."""
    say = texts(LANGUAGES[0])
    try:
        words, language = _language(words)
        say = texts(language)
        if not words or words[0] in ("help", "--help", "-h"):
            print(help_text(say))
            return FINISHED
        return _named(words[0])(words[1:], say)
    except Problem as problem:
        print(say.notice(problem.notice), file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def list_activities(words: list[str], say: Texts) -> int:
    _parsed(words, {})
    print("\n\n".join(activity_text(activity, say) for activity in ACTIVITIES.values()))
    return FINISHED


def run(words: list[str], say: Texts) -> int:
    if {"--help", "-h"} & set(words[:1]):
        print(help_text(say))
        return FINISHED
    if not words or words[0].startswith("-"):
        raise Problem("problem.activity_missing", near=", ".join(ACTIVITIES))
    activity = activity_named(words[0])
    if {"--help", "-h"} & set(words):
        print(activity_text(activity, say))
        return FINISHED
    rules = activity.settings.rules()
    stands_for = {name: _value_word(rule) for name, rule in rules.items()}
    known = {**stands_for, **(BRING if "picture" in rules else {}), **RUN_OPTIONS}
    options = _parsed(words[1:], known)
    values = {name: options[name] for name in rules if name in options}
    _log("debug" in options)
    with _brought(options.get("image")) as (folder, name):
        settings = activity.settings.parse(values | ({"picture": name} if name else {}))
        return run_activity(
            activity,
            settings,
            LabSettings.load(),
            device=options.get("device", "auto"),
            keeping=Keeping(_path(options.get("save")), _path(options.get("record"))),
            teller=JsonTeller(say) if "json" in options else ScreenTeller(say),
            brought=folder,
        )


@contextmanager
def _brought(image: str | None) -> Iterator[tuple[Path | None, str | None]]:
    """A picture of the reader's own, put where uploads lie for as long as the run takes, and the
    name that settings carry. Raises Problem for a file that is no usable picture."""
    if image is None:
        yield None, None
        return
    from core.data import photos

    with tempfile.TemporaryDirectory() as folder:
        try:
            data = Path(image).expanduser().read_bytes()
        except (OSError, RuntimeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Problem("problem.image_unreadable", path=image, reason=reason) from None
        yield Path(folder), photos.keep_upload(Path(folder), photos.sanitised(data))


def show_assets(words: list[str], say: Texts) -> int:
    """Data and models that the lab stands on: which are in use, where they are; or fetch one."""
    from core.headless_assets import fetch_asset, models_text

    if words[:1] == ["fetch"]:
        name, *rest = words[1:] or [""]  # without a name: told which there are
        options = _parsed(rest, {"accept_licence": "", "debug": ""})
        _log("debug" in options)
        accepted = "accept_licence" in options
        return fetch_asset(name, accepted=accepted, settings=LabSettings.load(), say=say)
    _log("debug" in _parsed(words, {"debug": ""}))
    settings = LabSettings.load()
    _show_digits(settings, say)
    print()
    print(models_text(settings, say))
    return FINISHED


def _show_digits(settings: LabSettings, say: Texts) -> None:
    from core.data.digits import DigitsSource, load_digits

    digits = load_digits(settings)
    place = {
        DigitsSource.FOLDER: settings.data_dir,
        DigitsSource.DOWNLOAD: settings.cache / "mnist",
        DigitsSource.WIDENED: settings.cache,
    }[digits.source]
    print(
        say(
            "cli.asset.digits",
            source=say(f"data.source.{digits.source}"),
            place=str(place),
            count=len(digits.images),
            size=digits.images.nbytes / 2**20,
        )
    )
    print(f"  {say('cli.asset.digits.licence')}")
    for notice in digits.notices:
        print(say.notice(notice), file=sys.stderr)


def check_prompt(words: list[str], say: Texts) -> int:
    """Exit code 0 for a sentence that may be drawn, 1 for one that may not."""
    from core.headless_prompt import tell_verdict

    prompt = " ".join(word for word in words if not word.startswith("--"))
    options = _parsed([word for word in words if word.startswith("--")], {"json": ""})
    return tell_verdict(prompt, LabSettings.load(), say, as_json="json" in options)


def preflight(words: list[str], say: Texts) -> int:
    """Exit code 0 only if no gate is red."""
    suites = {
        name.removeprefix(PREFLIGHT): activity
        for name, activity in ACTIVITIES.items()
        if name.startswith(PREFLIGHT)
    }
    if {"--help", "-h"} & set(words):
        print("\n\n".join(activity_text(activity, say) for activity in suites.values()))
        return FINISHED
    if not words or words[0].startswith("-"):
        raise Problem("problem.suite_missing", near=", ".join(suites))
    if words[0] not in suites:
        raise Problem("problem.suite_unknown", suite=words[0], near=", ".join(suites))
    rules = suites[words[0]].settings.rules()
    stands_for = {name: _value_word(rule) for name, rule in rules.items()}
    options = _parsed(words[1:], stands_for | PREFLIGHT_OPTIONS)
    _log("debug" in options)
    from core.headless_preflight import run_preflight

    return run_preflight(
        words[0],
        {name: options[name] for name in rules if name in options},
        say,
        device=options.get("device", "auto"),
        as_json="json" in options,
        report=_path(options.get("html")),
    )


def report(words: list[str], say: Texts) -> int:
    """One student's lab report as an HTML file."""
    if {"--help", "-h"} & set(words):
        print(help_text(say))
        return FINISHED
    options = _parsed(words, REPORT_OPTIONS)
    _log("debug" in options)
    for name in ("student", "out"):
        if name not in options:
            raise Problem("problem.option_missing", option=f"--{name} {REPORT_OPTIONS[name]}")
    from core.headless_report import write_report

    out = Path(options["out"]).expanduser()
    return write_report(options["student"], out, LabSettings.load(), say)


COMMANDS: Mapping[str, Callable[[list[str], Texts], int]] = {
    "list": list_activities,
    "run": run,
    "assets": show_assets,
    "check-prompt": check_prompt,
    "preflight": preflight,
    "report": report,
}


def help_text(say: Texts) -> str:
    """What there is to say: the commands, and the options of a run."""
    commands = {
        "list": say("cli.help.list"),
        "run ACTIVITY": say("cli.help.run"),
        "assets": say("cli.help.assets"),
        "assets fetch NAME": say("cli.help.fetch"),
        "check-prompt TEXT": say("cli.help.check_prompt"),
        "preflight classroom|speech": say("cli.help.preflight"),
        "report --student TOKEN --out FILE": say("cli.help.report"),
    }
    options = {
        f"--{name} {value}".strip(): say(f"cli.option.{name}")
        for name, value in RUN_OPTIONS.items()
    }
    options[f"--lang {'|'.join(LANGUAGES)}"] = say("cli.option.lang")
    return "\n".join(
        (
            "python -m core COMMAND",
            "",
            say("cli.help.intro"),
            "",
            *_aligned(commands),
            "",
            say("cli.help.options"),
            "",
            *_aligned(options),
        )
    )


def activity_text(activity: Activity, say: Texts) -> str:
    """One activity and its settings, each with what it takes and its default."""
    defaults = activity.settings()
    settings = {
        f"{_option(name)} {_value_word(rule)}": _rule_text(
            _meaning(activity, name, say), rule, getattr(defaults, name), say
        )
        for name, rule in activity.settings.rules().items()
    }
    if "picture" in activity.settings.rules():
        settings["--image FILE"] = say("cli.option.image")
    title = f"{activity.id}: {say(f'cli.activity.{activity.id}')}"
    return "\n".join((title, *_aligned(settings)))


def _meaning(activity: Activity, name: str, say: Texts) -> str:
    """What a setting means: in this activity, where the name means something else elsewhere."""
    own = f"cli.setting.{activity.id}.{name}"
    return say(own) if say.has(own) else say(f"cli.setting.{name}")


def _value_word(rule: Rule) -> str:
    """What stands for the value of a setting."""
    match rule:
        case Limit() | DecimalLimit():
            return "N"
        case TextLimit():
            return "TEXT"
        case OneOf():
            return "NAME"


def _rule_text(meaning: str, rule: Rule, default: float | str, say: Texts) -> str:
    """What a setting means, what it takes, and what it is when nothing is said."""
    match rule:
        case Limit(low, high) | DecimalLimit(low, high):
            return say("cli.setting", meaning=meaning, low=low, high=high, default=default)
        case TextLimit(longest):
            return say("cli.setting_text", meaning=meaning, longest=longest, default=default)
        case OneOf(names):
            return say(
                "cli.setting_choice", meaning=meaning, names=", ".join(names), default=default
            )


def _aligned(pairs: Mapping[str, str]) -> list[str]:
    width = max(map(len, pairs))
    return [f"  {left.ljust(width)}  {right}" for left, right in pairs.items()]


def _language(words: list[str]) -> tuple[list[str], str]:
    """The words without `--lang`, which may stand anywhere, and the language it named."""
    rest: list[str] = []
    language = LANGUAGES[0]
    remaining = iter(words)
    for word in remaining:
        if word == "--lang" or word.startswith("--lang="):
            language = word.partition("=")[2] or next(remaining, "")
            if language not in LANGUAGES:
                raise Problem("problem.language_unknown", language=language)
        else:
            rest.append(word)
    return rest, language


def _named(command: str) -> Callable[[list[str], Texts], int]:
    if command in COMMANDS:
        return COMMANDS[command]
    near = difflib.get_close_matches(command, COMMANDS, n=1, cutoff=0.4) or list(COMMANDS)
    raise Problem("problem.command_unknown", command=command, near=", ".join(near))


def _parsed(words: list[str], known: Mapping[str, str]) -> dict[str, str]:
    """Option -> its text, from `--name value` or `--name=value`; "" for one that takes no value.

    Not argparse: its messages are English, several lines long, and know no near names.
    """
    options: dict[str, str] = {}
    remaining = iter(words)
    for word in remaining:
        if not word.startswith("--"):
            raise Problem("problem.word_unexpected", word=word)
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1) or list(known)
            raise Problem("problem.option_unknown", option=word, near=", ".join(map(_option, near)))
        if known[name] and not equals:
            value = next(remaining, "")
        if known[name] and not value:
            raise Problem("problem.option_needs_value", option=_option(name), expected=known[name])
        if equals and not known[name]:
            raise Problem("problem.option_takes_no_value", option=_option(name))
        options[name] = value
    return options


def _option(name: str) -> str:
    return f"--{_dashed(name)}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def _log(debug: bool) -> None:
    """Readers get sentences; the log, library warnings included, is for `--debug`."""
    logging.captureWarnings(True)
    logging.basicConfig(level=logging.INFO if debug else logging.CRITICAL + 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
