"""The same activities without a browser: `python -m core ...`.

Answers in the reader's language (`--lang vi|en`). Exit code 0: finished; 2: bad input, told in one
sentence on standard error; 1: the run failed; 130: stopped by Ctrl-C.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from core.activities import ACTIVITIES, Activity, ActivitySettings, Limit, activity_named
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
    names = activity.settings.__struct_fields__
    options = _parsed(words[1:], {**dict.fromkeys(names, "N"), **RUN_OPTIONS})
    settings = activity.settings.parse({name: options[name] for name in names if name in options})
    _log("debug" in options)
    return run_activity(
        activity,
        settings,
        LabSettings.load(),
        device=options.get("device", "auto"),
        keeping=Keeping(_path(options.get("save")), _path(options.get("record"))),
        teller=JsonTeller(say) if "json" in options else ScreenTeller(say),
    )


def list_assets(words: list[str], say: Texts) -> int:
    """Data and models that the lab stands on: which one is in use, where it is, how large."""
    from core.data.digits import DigitsSource, load_digits

    _log("debug" in _parsed(words, {"debug": ""}))
    settings = LabSettings.load()
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
    return FINISHED


COMMANDS: Mapping[str, Callable[[list[str], Texts], int]] = {
    "list": list_activities,
    "run": run,
    "assets": list_assets,
}


def help_text(say: Texts) -> str:
    """What there is to say: the commands, and the options of a run."""
    commands = {
        "list": say("cli.help.list"),
        "run ACTIVITY": say("cli.help.run"),
        "assets": say("cli.help.assets"),
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
    """One activity and its settings, each with its range and default."""
    defaults = activity.settings()
    settings = {
        f"--{_dashed(name)} N": _range_text(name, limit, defaults, say)
        for name, limit in activity.settings.limits().items()
    }
    title = f"{activity.id}: {say(f'cli.activity.{activity.id}')}"
    return "\n".join((title, *_aligned(settings)))


def _range_text(name: str, limit: Limit, defaults: ActivitySettings, say: Texts) -> str:
    return say(
        "cli.setting",
        meaning=say(f"cli.setting.{name}"),
        low=limit.low,
        high=limit.high,
        default=getattr(defaults, name),
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
