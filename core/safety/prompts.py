"""May this sentence be drawn? A list of words, held against the sentence without its disguises.

It knows the words of `rules.toml` and of the teacher's own file, and nothing of what a sentence
means: somebody who is described without being named gets through. The page says so.
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from core.problems import Notice, Problem
from core.safety import spelling
from core.settings import LabSettings

BUILT_IN = Path(__file__).parent / "rules.toml"
KINDS = ("minors", "nudity", "violence", "person", "papers", "logo", "other")

Decision = Literal["allow", "ask", "refuse"]
Kind = Literal["minors", "nudity", "violence", "person", "papers", "logo", "other"]

ALLOWED = -1  # in place of a rule's number: a phrase that the teacher allows

_SHORTEST_JOINED = 5  # letters of a phrase that is also known in one word: "idcard"
_SHORTEST_PLURAL = 3
_FORGIVING = ("tones", "accents")  # these steps are taken word by word, see `_forgiven`
_READ_WITH_FORGIVENESS = spelling.STEPS[spelling.STEPS.index("letters") :]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a file. A word that begins with "=" counts only with all its accents."""

    name: str
    kind: Kind
    words: tuple[str, ...]  # words and phrases that it looks for
    decision: Literal["ask", "refuse"] = "refuse"
    not_in: tuple[str, ...] = ()  # harmless phrases that hold one of them: "trump card"
    only_with: tuple[str, ...] = ()  # it applies only where one of these stands in the sentence too
    ask_with: tuple[str, ...] = ()  # "refuse" becomes "ask" where one of these does
    allow_with: tuple[str, ...] = ()  # it does not apply where one of these does


class RuleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of rules holds."""

    allow: tuple[str, ...] = ()  # phrases in which nothing is looked for
    rule: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What the sentence is after one step of `core.safety.spelling.STEPS`."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a sentence may be drawn; if not, which rule says so and at which step it saw it.

    "ask" means: not drawn before the teacher allows the phrase.
    """

    decision: Decision
    kind: Kind | None = None
    rule: str | None = None
    matched: str | None = None  # the word or phrase of the rule, as its file has it
    step: str | None = None  # name of the step after which the rule recognised it
    steps: tuple[Step, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.decision == "allow"

    @property
    def notice(self) -> Notice | None:
        """The reason and what to do instead; None for a sentence that may be drawn."""
        if self.kind is None or self.matched is None:
            return None
        return Notice(f"safety.{self.decision}.{self.kind}", {"matched": self.matched})


def load_rules(settings: LabSettings) -> Rules:
    """The built-in rules and the teacher's, read again when the teacher's file has changed."""
    extra = settings.prompt_rules
    if extra is None:
        return _rules(None, None)
    try:
        stat = extra.stat()
        return _rules(extra, (stat.st_mtime_ns, stat.st_size, stat.st_ino))
    except OSError:
        return _rules(extra, None)


@functools.lru_cache(maxsize=4)
def _rules(extra: Path | None, _version: tuple[int, ...] | None) -> Rules:
    built_in = read_rules(BUILT_IN)
    if extra is None:
        return Rules(built_in)
    try:
        return Rules(built_in, read_rules(extra))
    except Problem as problem:
        return Rules(built_in, notice=problem.notice)


def read_rules(path: Path) -> RuleFile:
    """Raises Problem saying where the file is not as it should be."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise Problem("problem.prompt_rules_unreadable", file=str(path)) from None
    except UnicodeDecodeError:
        raise Problem("problem.prompt_rules_encoding", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = line[1] if line else "…"  # "at end of document"
        raise Problem("problem.prompt_rules_syntax", file=str(path), line=place) from None
    try:
        file = msgspec.convert(values, RuleFile)
    except msgspec.ValidationError as error:
        place = re.search(r"`\$\.rule\[(\d+)\]", str(error))
        if place is None:
            raise Problem("problem.prompt_rules_top", file=str(path)) from None
        number = int(place[1]) + 1
        raise Problem("problem.prompt_rules_rule", file=str(path), number=number) from None
    for number, rule in enumerate(file.rule, 1):
        if not rule.words or not all(map(_words, itertools.chain(*_lists(rule)))):
            raise Problem("problem.prompt_rules_rule", file=str(path), number=number)
    return file


def _lists(rule: Rule) -> tuple[tuple[str, ...], ...]:
    return rule.words, rule.not_in, rule.only_with, rule.ask_with, rule.allow_with


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase that is looked for: its words as `spelling.tidy` leaves them."""

    words: tuple[str, ...]
    text: str  # as its file has it
    rule: int  # its place among the rules, or `ALLOWED`
    role: str  # field of `Rule` that it stands in
    accented: bool  # it carries accents, of which a typed word may lack some or all
    exact: bool  # none may be lacking: without them it means something else


@dataclass(frozen=True, slots=True)
class _Found:
    phrase: _Phrase
    start: int  # in words of the text
    end: int
    step: str  # "" as it is written; or "tones", "accents": what had to be forgiven


class Rules:
    """Rules ready for use. Immutable; shared by all readers."""

    def __init__(self, *files: RuleFile, notice: Notice | None = None) -> None:
        self.notice = notice  # what is wrong with the teacher's file, to be shown to the teacher
        self.rules = tuple(rule for file in files for rule in file.rule)
        self._phrases: dict[str, list[_Phrase]] = {}  # by the first word, without its accents
        for file in files:
            for text in file.allow:
                self._add(text, rule=ALLOWED, role="allow", plural=True)
        for place, rule in enumerate(self.rules):
            for role in ("words", "not_in", "only_with", "ask_with", "allow_with"):
                for text in getattr(rule, role):
                    self._add(text, rule=place, role=role, plural=rule.kind != "person")

    def _add(self, text: str, *, rule: int, role: str, plural: bool) -> None:
        shown = text.removeprefix("=")
        accented = any(map(spelling.is_accented, _words(text)))
        for words in _forms(_words(text), plural=plural and not accented):
            phrase = _Phrase(words, shown, rule, role, accented, exact=shown != text)
            first = spelling.without_accents(words[0])
            self._phrases.setdefault(first, []).append(phrase)

    def find(self, text: str) -> Iterator[_Found]:
        """Every phrase of any rule that stands in the text, forgiving tones and accents."""
        words = spelling.words_of(text)
        for start, word in enumerate(words):
            for phrase in self._phrases.get(spelling.without_accents(word), ()):
                end = start + len(phrase.words)
                step = _forgiven(words[start:end], phrase)
                if step is not None:
                    yield _Found(phrase, start, end, step)


def check(prompt: str, rules: Rules) -> Verdict:
    """The verdict on this sentence. Never raises, whatever the sentence is made of."""
    readings = spelling.readings(prompt)
    found = {text: tuple(rules.find(text)) for _, texts in readings for text in texts}
    said = {(hit.phrase.rule, hit.phrase.role) for hits in found.values() for hit in hits}
    spared = Counter[_Phrase]()  # as often as it stands in harmless company, in the best reading
    for hits in found.values():
        spared |= Counter(hit.phrase for hit in hits if _is_harmless(hit, hits, rules))
    sights = [
        _Sight(hit, max(step, hit.step or step, key=spelling.STEPS.index), text, decision)
        for step, texts in readings
        for text in texts
        for hit in found[text]
        if hit.phrase.role == "words"
        and (not hit.step or step in _READ_WITH_FORGIVENESS)
        and sum(hit.phrase == other.phrase for other in found[text]) > spared[hit.phrase]
        and not _is_harmless(hit, found[text], rules)
        and (decision := _decided(hit, said, rules)) is not None
    ]
    if not sights:
        return Verdict("allow", steps=_steps(readings, None))
    seen = min(sights, key=lambda sight: sight.urgency(rules))
    rule = rules.rules[seen.hit.phrase.rule]
    return Verdict(
        seen.decision,
        rule.kind,
        rule.name,
        seen.hit.phrase.text,
        seen.step,
        _steps(readings, seen),
    )


def require_allowed(prompt: str, rules: Rules) -> None:
    """Raises Problem with the reason and a suggestion for a sentence that may not be drawn."""
    notice = check(prompt, rules).notice
    if notice is not None:
        raise Problem(notice.key, **notice.facts)


@dataclass(frozen=True, slots=True)
class _Sight:
    """A rule that recognised its words: after which step, and in which text."""

    hit: _Found
    step: str
    text: str
    decision: Decision

    def urgency(self, rules: Rules) -> tuple[int, int, int, int]:
        """Smaller is told first: refusals, then the graver kind, then the fewest steps."""
        kind = rules.rules[self.hit.phrase.rule].kind
        gravity = KINDS.index(kind)
        return self.decision != "refuse", gravity, spelling.STEPS.index(self.step), self.hit.start


def _is_harmless(hit: _Found, beside: tuple[_Found, ...], rules: Rules) -> bool:
    """Whether it stands within a phrase that makes it harmless, or that the teacher allows."""
    place = hit.phrase.rule
    if hit.phrase.role != "words":
        return False
    excuses = {("not_in", place)}
    if rules.rules[place].kind != "minors":
        excuses.add(("allow", ALLOWED))
    return any(
        (other.phrase.role, other.phrase.rule) in excuses
        and other.start <= hit.start
        and hit.end <= other.end
        for other in beside
    )


def _decided(hit: _Found, said: set[tuple[int, str]], rules: Rules) -> Decision | None:
    """What a rule makes of its words, by what else the sentence says; None: it does not apply."""
    place = hit.phrase.rule
    rule = rules.rules[place]
    if (rule.only_with and (place, "only_with") not in said) or (place, "allow_with") in said:
        return None
    return "ask" if (place, "ask_with") in said else rule.decision


def _steps(
    readings: tuple[tuple[str, tuple[str, ...]], ...], seen: _Sight | None
) -> tuple[Step, ...]:
    """Every step with its text: the one in which a rule saw its words, or else the plainest."""
    steps = [
        Step(name, seen.text if seen is not None and seen.text in texts else texts[0])
        for name, texts in readings
    ]
    text = seen.text if seen is not None and seen.step in _FORGIVING else steps[-1].text
    tones = spelling.with_second_tones(text)
    return (*steps, Step("tones", tones), Step("accents", spelling.without_accents(tones)))


@functools.lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    """The words of a phrase of a rule; () where there are none."""
    words = spelling.words_of(spelling.tidy(text.removeprefix("=")))
    return tuple(word for word in words if word != spelling.STOP)


def _forms(words: tuple[str, ...], *, plural: bool) -> set[tuple[str, ...]]:
    """The phrase itself, in one word, and in the English plural."""
    forms = {words}
    if len(words) > 1 and sum(map(len, words)) >= _SHORTEST_JOINED:
        forms.add(("".join(words),))
    if plural and len(words[-1]) >= _SHORTEST_PLURAL:
        ending = "es" if words[-1].endswith(("s", "x", "ch", "sh")) else "s"
        forms |= {(*form[:-1], form[-1] + ending) for form in forms}
    return forms


def _forgiven(typed: tuple[str, ...], phrase: _Phrase) -> str | None:
    """Which step it takes to see the phrase in these words: "" for none; None: they differ."""
    if typed == phrase.words:
        return ""
    if len(typed) != len(phrase.words):
        return None
    typed = tuple(map(spelling.with_second_tones, typed))
    words = tuple(map(spelling.with_second_tones, phrase.words))
    if typed == words:
        return "tones"
    if phrase.exact:
        return None
    if phrase.accented:
        alike = all(map(spelling.may_be, typed, words))
    else:
        alike = tuple(map(spelling.without_accents, typed)) == words
    return "accents" if alike else None
