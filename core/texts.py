"""Every word that a reader sees, in the reader's language.

Labels stand in gettext files, `core/content/<language>/*.po`, read as they are: the msgid is an id
such as `part1.run`, the msgstr is the text. Longer prose stands beside them as markdown.

A text may have gaps. `{place}` is filled with a string, or with a number written the way the
reader writes numbers; `{wait:seconds}`, `{free:mib}`, `{share:percent}`, `{step:ms}` and
`{when:date}` say how; `{reason:text}` is filled with the text whose id the fact holds.

A text that is missing fails a test. On a lesson's day it is shown as its id, and logged.
"""

from __future__ import annotations

import datetime
import functools
import logging
import re
import string
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from babel import Locale
from babel.dates import format_date
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

from core.problems import Notice

LANGUAGES = ("vi", "en")  # the first is the one a new visitor sees
CONTENT = Path(__file__).parent / "content"

_LOCALES = {"vi": "vi_VN", "en": "en_GB"}  # how numbers and dates are written
_ID = re.compile(r'^msgid "(.+)"$', re.MULTILINE)
_log = logging.getLogger(__name__)

Value = str | int | float | None  # what may fill a gap; None reads "not measured"


class MissingText(UserWarning):
    """A text, or a fact that it needs, is not there. An error in tests, a log line in class."""


@functools.cache
def texts(language: str) -> Texts:
    """The words of one of `LANGUAGES`, read once."""
    return Texts(language, CONTENT)


class Texts:
    """`say = texts("vi")`; then `say("part1.run")` and so on. Immutable; shared by all readers."""

    def __init__(self, language: str, content: Path) -> None:
        """Raises ValueError for an unknown language and for an id that stands twice."""
        if language not in LANGUAGES:
            raise ValueError(f"unknown language {language!r}; expected one of {LANGUAGES}")
        self.language = language
        self._locale = Locale.parse(_LOCALES[language])
        self._labels = read_labels(language, content)
        self._prose = {
            path.relative_to(content / language).with_suffix("").as_posix(): path.read_text("utf-8")
            for path in sorted((content / language).rglob("*.md"))
        }

    def __call__(self, key: str, /, **facts: Value) -> str:
        """The label with this id, its gaps filled."""
        return self._filled(key, self._forms(key)[0], facts)

    def count(self, key: str, n: int, /, **facts: Value) -> str:
        """The label's form for `n` things (`msgid_plural` in the .po); the gap `{n}` is filled."""
        forms = self._forms(key)
        singular = self._locale.plural_form(n) == "one"
        return self._filled(key, forms[0 if singular else -1], {"n": n, **facts})

    def has(self, key: str, /) -> bool:
        return key in self._labels

    def notice(self, notice: Notice) -> str:
        """The sentence of a notice: what happened, what was expected, what to do."""
        return self(notice.key, **notice.facts)

    def prose(self, name: str, /) -> str:
        """Markdown of one section, such as `say.prose("part1/intro")`."""
        if name not in self._prose:
            _missing(f"no prose {name!r} in {self.language!r}")
            return name
        return self._prose[name]

    def number(self, value: float | None, *, digits: int | None = None) -> str:
        """`37,5` or `37.5`, in thousands as the reader groups them.

        `digits` decimals; without it about three figures, and no trailing zeros.
        """
        if value is None:
            return self("absent.value")
        if digits is not None:
            pattern = "#,##0" + ("." + "0" * digits if digits else "")
        elif isinstance(value, int) or abs(value) >= 100:
            pattern = "#,##0"
        else:
            pattern = "#,##0.#" if abs(value) >= 10 else "#,##0.##"
        return str(format_decimal(value, format=pattern, locale=self._locale))

    def seconds(self, value: float | None) -> str:
        """A length of time: `0,23 s`, `37,5 s`, `1 phút 5 s`, `2 giờ 10 phút`."""
        if value is None:
            return self("absent.value")
        if round(value, 1) < 60:
            return self("unit.seconds", value=self.number(value, digits=1 if value >= 1 else 2))
        whole = round(value)
        if whole < 3600:
            return self("unit.minutes_seconds", minutes=whole // 60, seconds=whole % 60)
        return self("unit.hours_minutes", hours=whole // 3600, minutes=whole % 3600 // 60)

    def ms(self, value: float | None) -> str:
        """Milliseconds: `137 ms`, `7,35 ms`."""
        return self._with_unit("unit.ms", value)

    def percent(self, value: float | None, *, digits: int = 0) -> str:
        """`value` is in percent: 42 gives `42%`."""
        if value is None:
            return self("absent.value")
        return self("unit.percent", value=self.number(value, digits=digits))

    def mib(self, value: float | None) -> str:
        """Memory: `497 MiB`, `1,21 GiB`. `value` is in MiB."""
        if value is None:
            return self("absent.value")
        if value < 1024:
            return self("unit.mib", value=self.number(value, digits=0))
        return self._with_unit("unit.gib", value / 1024)

    def watts(self, value: float | None) -> str:
        """Power: `38,6 W`."""
        return self._with_unit("unit.watts", value)

    def date(self, value: float | str | None) -> str:
        """The day of a Unix time (as this computer's clock shows it) or of an ISO date."""
        if value is None:
            return self("absent.value")
        if isinstance(value, str):
            day = datetime.datetime.fromisoformat(value).date()
        else:
            day = datetime.datetime.fromtimestamp(value).date()
        return str(format_date(day, format="long", locale=self._locale))

    def _with_unit(self, unit: str, value: float | None) -> str:
        return self("absent.value") if value is None else self(unit, value=self.number(value))

    def _forms(self, key: str) -> tuple[str, ...]:
        if key not in self._labels:
            _missing(f"no text {key!r} in {self.language!r}")
            return (key,)
        return self._labels[key]

    def _filled(self, key: str, text: str, facts: Mapping[str, Value]) -> str:
        if "{" not in text:
            return text
        return _Gaps(self, key).vformat(text, (), facts)

    def _written(self, value: Any, how: str) -> str:
        """One fact as text."""
        if how == "text":
            return self(str(value))
        if how in ("seconds", "ms", "percent", "mib", "watts", "date"):
            return str(getattr(self, how)(value))
        return value if isinstance(value, str) else self.number(value)


class _Gaps(string.Formatter):
    """Fills the gaps of one text."""

    def __init__(self, say: Texts, key: str) -> None:
        self._say, self._key = say, key

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if key in kwargs:
            return kwargs[str(key)]
        _missing(f"the text {self._key!r} needs the fact {key!r}")
        return "…"

    def format_field(self, value: Any, format_spec: str) -> str:
        return self._say._written(value, format_spec)


def read_labels(language: str, content: Path) -> dict[str, tuple[str, ...]]:
    """Id -> text, or its plural forms, from all .po files of one language.

    Raises ValueError for an id that stands twice.
    """
    labels: dict[str, tuple[str, ...]] = {}
    seen: Counter[str] = Counter()
    for path in sorted((content / language).glob("*.po")):
        # Babel would merge an id that stands twice in one file, and keep one text, in silence.
        seen.update(_ID.findall(path.read_text("utf-8")))
        with path.open("rb") as file:
            for message in read_po(file, locale=language, abort_invalid=True):
                forms = message.string if message.pluralizable else [message.string]
                key = message.id[0] if message.pluralizable else message.id
                if key:  # the file's header has the empty id
                    labels[str(key)] = tuple(str(form) for form in forms or ())
    twice = [key for key, times in seen.items() if times > 1]
    if twice:
        raise ValueError(f"these ids stand twice in {content / language}: {', '.join(twice)}")
    return labels


def _missing(what: str) -> None:
    _log.error("%s", what)
    warnings.warn(MissingText(what), stacklevel=3)
