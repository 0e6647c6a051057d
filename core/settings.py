"""The settings of one server, read once from the environment (`LAB_*`) and from secrets.

Each setting is declared once, with its default, its range and one line of help; the README's table
is checked against this file. A name that does not exist is refused, with the nearest one.
"""

# ruff: noqa: RUF009  # `_setting` gives a dataclass field, made once as it should be

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from core.problems import Problem

PREFIX = "LAB_"
SECRET_NAMES = ("class_code", "teacher_code", "database_url")  # may stand in secrets.toml too

DAY = 86_400.0  # seconds
YES = ("1", "true", "yes", "on")
NO = ("0", "false", "no", "off", "")


def _setting(
    default: Any, help: str, *, low: float | None = None, high: float | None = None
) -> Any:
    return field(default=default, metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What whoever hosts the lab may change. Seconds and MiB where the name says so."""

    data_dir: Path | None = _setting(None, "folder that holds MNIST in torchvision's layout")
    cache_dir: Path = _setting(
        Path("~/.cache/gpu-lab"), "where prepared digits and the results database are kept"
    )
    recordings_dir: Path | None = _setting(None, "folder with more recordings made by --record")
    models_dir: Path | None = _setting(
        None, "folder that holds sd-turbo and other fetched models; unset: in the cache folder"
    )
    mini_turbo_dir: Path | None = _setting(
        None, "a mini-turbo of your own training, in place of the one in the repository"
    )
    keys_dir: Path | None = _setting(
        None, "where the keys that sign pictures are kept; unset: in the cache folder"
    )
    prompt_rules: Path | None = _setting(
        None, "a file with more rules for prompts, and with phrases that are allowed"
    )
    keep_refused_prompts: bool = _setting(
        False, "true: keep the words of refused prompts, not only their number"
    )
    compile_pictures: bool = _setting(
        False, "true: compile the image model when the server starts (a GPU; a minute or two)"
    )
    offline: bool = _setting(False, "true: never try to download anything")
    devices: str = _setting("auto", "auto, cpu, or UUIDs of the cards to use, separated by commas")
    cpu_threads: int = _setting(2, "CPU threads of one worker", low=1, high=256)
    train_slots: int = _setting(1, "training jobs at once on one device", low=1, high=16)
    queue_limit: int = _setting(100, "jobs that may wait in the whole class", low=1, high=10_000)
    student_limit: int = _setting(2, "unfinished jobs of one student", low=1, high=100)
    sample_seconds: float = _setting(
        0.2, "time between two readings of the meter", low=0.05, high=5
    )
    idle_seconds: float = _setting(
        600.0,
        "a worker that has had nothing to do for this long gives its memory back",
        low=1,
        high=DAY,
    )
    grace_seconds: float = _setting(
        300.0,
        "a job is stopped when its student's browser has been gone for this long",
        low=5,
        high=DAY,
    )
    job_seconds: float = _setting(
        1_800.0, "a job is stopped when it has run for this long", low=60, high=DAY
    )
    class_code: str = _setting("", "students must type this code first; empty: no code")
    teacher_code: str = _setting("", "opens the teacher's view; empty: no teacher's view")
    database_url: str = _setting("", "where results are kept; empty: SQLite in the cache folder")
    retention_days: int = _setting(
        180,  # a term, its examinations and some weeks to look back
        "results older than so many days are deleted, and students gone for so long; 0: never",
        low=0,
        high=3_650,
    )

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] = os.environ,
        secrets: Mapping[str, object] | None = None,
    ) -> LabSettings:
        """Settings from `LAB_*` names and from secrets; the environment wins.

        Secrets hold other programs' entries too, so only `SECRET_NAMES` are looked at there.

        Raises Problem naming the setting that is unknown, empty, of the wrong kind, or out of
        range.
        """
        known = {setting.name: setting for setting in fields(cls)}
        texts = {name: str(secrets[name]) for name in SECRET_NAMES if secrets and name in secrets}
        for variable, text in environment.items():
            if variable.startswith(PREFIX):
                name = variable.removeprefix(PREFIX).lower()
                if name not in known:
                    raise Problem("problem.environment_unknown", name=variable, near=_near(name))
                texts[name] = text

        kinds = get_type_hints(cls)
        values: dict[str, Any] = {
            name: _parsed(known[name], kinds[name], text.strip()) for name, text in texts.items()
        }
        return cls(**values)

    @property
    def models(self) -> Path:
        """Where models that were fetched lie."""
        return self.models_dir or self.cache / "models"

    @property
    def keys(self) -> Path:
        """Where the keys of this installation lie."""
        return self.keys_dir or self.cache / "keys"

    @property
    def cache(self) -> Path:
        """`cache_dir` in full; below the temporary folder for an account without a home."""
        try:
            return self.cache_dir.expanduser()
        except RuntimeError:
            return Path(tempfile.gettempdir(), "gpu-lab")


def _near(name: str) -> str:
    """The variable whose name is nearest to `name`, however far that is."""
    names = [setting.name for setting in fields(LabSettings)]
    return _variable(difflib.get_close_matches(name, names, n=1, cutoff=0)[0])


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _parsed(setting: Field[Any], kind: object, text: str) -> object:
    """`text` as the kind that the setting is annotated with."""
    variable = _variable(setting.name)
    if kind is bool:
        return _yes_or_no(variable, text)
    if kind in (int, float):
        low, high = setting.metadata["low"], setting.metadata["high"]
        return _number(variable, text, whole=kind is int, low=low, high=high)
    if not text and setting.default != "":
        raise Problem("problem.environment_empty", name=variable)
    if setting.name == "devices":
        return _devices(variable, text)
    return text if kind is str else _folder(variable, text)


def _yes_or_no(variable: str, text: str) -> bool:
    if text.lower() in YES:
        return True
    if text.lower() in NO:
        return False
    raise Problem("problem.environment_kind", name=variable, value=text, expected="true | false")


def _number(variable: str, text: str, *, whole: bool, low: float, high: float) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise Problem(
            "problem.environment_kind", name=variable, value=text, expected=f"{low:g} .. {high:g}"
        ) from None
    if not low <= value <= high:  # "nan" ends here as well
        raise Problem("problem.environment_range", name=variable, value=text, low=low, high=high)
    return value


def _devices(variable: str, text: str) -> str:
    """UUIDs only: an index or a name such as cuda:0 may mean another card tomorrow."""
    if text.lower() in ("auto", "cpu"):
        return text.lower()
    cards = [card.strip() for card in text.split(",")]
    if not all(card.startswith(("GPU-", "MIG-")) for card in cards):
        raise Problem(
            "problem.environment_kind", name=variable, value=text, expected="auto | cpu | GPU-..."
        )
    return ",".join(cards)


def _folder(variable: str, text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # "~somebody" of whom this machine knows nothing
        raise Problem("problem.environment_folder", name=variable, value=text) from None
