"""The words of mini-turbo in English and Vietnamese, and what a prompt asks for. Needs no torch.

One list for both sides: `captions` makes the training sentences from it, `understand` reads prompts
with it. The model itself reads the raw sentence and knows nothing of this file's `understand`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from core.problems import Fact, Notice

ENGLISH, VIETNAMESE = "en", "vi"


@dataclass(frozen=True, slots=True)
class Word:
    """One thing that can be said, and the ways to say it; the first one is said most."""

    id: str
    en: tuple[str, ...]
    vi: tuple[str, ...]

    def said(self, language: str) -> tuple[str, ...]:
        return self.en if language == ENGLISH else self.vi


CLOTHES = (  # the classes of Fashion-MNIST, in its order
    Word("t-shirt", ("t-shirt", "tee shirt", "t shirt", "tshirt"), ("áo thun", "áo phông")),
    Word(
        "trousers",
        ("pair of trousers", "pair of pants", "trousers", "pants"),
        ("quần dài", "quần tây", "quần"),
    ),
    Word("pullover", ("pullover", "sweater", "jumper"), ("áo len", "áo chui đầu")),
    Word("dress", ("dress",), ("váy", "đầm", "váy liền")),
    Word("coat", ("coat", "jacket"), ("áo khoác",)),
    Word("sandal", ("sandal", "sandals"), ("dép quai hậu", "xăng đan", "dép")),
    Word("shirt", ("shirt", "button-up shirt"), ("áo sơ mi", "sơ mi")),
    Word(
        "sneaker",
        ("sneaker", "trainer", "running shoe", "sports shoe", "sneakers", "pair of sneakers"),
        ("giày thể thao", "giày chạy bộ"),
    ),
    Word("bag", ("bag", "handbag", "purse"), ("túi xách", "túi", "giỏ xách")),
    Word("ankle boot", ("ankle boot", "boot", "boots"), ("bốt", "giày bốt", "bốt cổ ngắn")),
)
DIGITS = tuple(
    Word(str(digit), (en, str(digit)), (vi, str(digit)))
    for digit, (en, vi) in enumerate(
        zip(
            ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
            ("không", "một", "hai", "ba", "bốn", "năm", "sáu", "bảy", "tám", "chín"),
            strict=True,
        )
    )
)
THINGS = CLOTHES + DIGITS

COLOURS = (
    Word("red", ("red",), ("đỏ",)),
    Word("orange", ("orange",), ("cam", "da cam")),
    Word("yellow", ("yellow",), ("vàng",)),
    Word("green", ("green",), ("xanh lá", "xanh lá cây", "xanh lục")),
    Word("blue", ("blue",), ("xanh dương", "xanh lam", "xanh nước biển", "xanh da trời")),
    Word("purple", ("purple", "violet"), ("tím",)),
    Word("pink", ("pink",), ("hồng",)),
    Word("brown", ("brown",), ("nâu",)),
    Word("black", ("black",), ("đen",)),
    Word("white", ("white",), ("trắng",)),
    Word("gray", ("gray", "grey"), ("xám", "ghi")),
)
GREEN_OR_BLUE = "xanh"  # Vietnamese has one word for both, unless more is said

SIZES = (
    Word("small", ("small", "tiny", "little"), ("nhỏ", "bé", "tí hon")),
    Word("normal", (), ()),  # the one that nobody says
    Word("large", ("large", "big", "huge"), ("lớn", "to", "khổng lồ")),
)


@dataclass(frozen=True, slots=True)
class General:
    """A word for several things: any of them will do."""

    en: tuple[str, ...]
    vi: tuple[str, ...]
    things: tuple[str, ...]

    def said(self, language: str) -> tuple[str, ...]:
        return self.en if language == ENGLISH else self.vi


GENERAL = (
    General(("shoe", "pair of shoes", "shoes"), ("giày", "giầy"), ("sneaker", "ankle boot")),
    General(("top",), ("áo",), ("t-shirt", "pullover", "coat", "shirt")),
    General(
        ("piece of clothing", "clothes"),
        ("món quần áo", "quần áo"),
        ("t-shirt", "trousers", "pullover", "dress", "coat", "shirt"),
    ),
    General(("number", "digit"), ("con số", "chữ số", "số"), tuple(d.id for d in DIGITS)),
)

# Around them: words that carry no wish of their own, and those that say where a colour belongs.
DIGIT_WORDS = {
    ENGLISH: ("number", "digit", "handwritten", "handwritten number"),
    VIETNAMESE: ("số", "chữ số", "con số"),
}
BACKGROUNDS = {  # in English its colour stands before it, in Vietnamese behind
    ENGLISH: ("background", "backdrop", "wall", "surface", "paper", "board"),
    VIETNAMESE: ("nền", "phông", "phông nền", "trên giấy", "bức tường", "tường"),
}
ON = ("on", "against", "over")  # "on white" means the background though nothing says so
NOT = {
    ENGLISH: ("not", "no", "without", "except", "isn't", "non"),
    VIETNAMESE: ("không phải", "không phải là", "không", "không có", "đừng", "trừ"),
}
REQUESTS = {
    ENGLISH: (
        "draw",
        "please draw",
        "i want",
        "draw me",
        "please draw me",
        "i would like",
        "show me",
        "make",
        "give me",
    ),
    VIETNAMESE: (
        "tôi muốn",
        "hãy vẽ",
        "vẽ cho tôi",
        "vẽ",
        "hãy vẽ cho tôi",
        "cho tôi",
        "em muốn",
        "làm ơn vẽ",
        "tạo",
    ),
}
THANKS = {ENGLISH: ("thank you", "please"), VIETNAMESE: ("cảm ơn", "cám ơn")}
FILLERS = {
    ENGLISH: (
        "high quality",
        "studio lighting",
        "highly detailed",
        "4k",
        "simple",
        "beautiful",
        "sharp focus",
        "soft light",
        "minimal",
        "clean",
        "product photography",
        "centered",
        "realistic",
        "nice",
    ),
    VIETNAMESE: (
        "chất lượng cao",
        "đẹp",
        "rõ nét",
        "đơn giản",
        "ánh sáng dịu",
        "chi tiết",
        "chụp trong studio",
        "tối giản",
    ),
}
COMMON = {
    ENGLISH: (
        "a an the of in with to at by for from and or it that is which are this my your me i you "
        "we one's photo picture image product studio shot drawing photograph coloured colored "
        "color colour painted written drawn handwritten hand plain solid front in front of "
        "please thanks thank very pair some placed standing lying put can could would like want"
    ),
    VIETNAMESE: (
        "một chiếc cái đôi con tấm màu mầu sắc trên với trước và có là của cho ở tôi mình em bạn "
        "ảnh hình bức tranh chụp vẽ viết tay hình ảnh đặt nằm trong bằng được hãy muốn cần xin nhé "
        "ạ đi này kia thì rất thật chữ"
    ),
}
OTHER_COLOURS = {
    ENGLISH: (
        "gold golden silver beige cream turquoise cyan magenta navy maroon teal lime olive indigo "
        "coral salmon khaki bronze copper rainbow colourful colorful transparent striped"
    ),
    VIETNAMESE: "bạc kem ngọc lục rêu nhũ sọc caro cầu vồng",
}
REAL_WORDS = ("tree", "coast", "boost", "lager", "dresser", "bale", "bans", "pans")  # not slips


class Asked(NamedTuple):
    """What a picture has to show, by ids; None or empty: not said."""

    things: tuple[str, ...]  # any of them will do
    colour: str | None
    background: str | None
    size: str | None


@dataclass(frozen=True, slots=True)
class Understood:
    """What the prompt says in words that the model has learnt, each as it stands there."""

    language: str
    objects: tuple[str, ...]  # more than one: the model cannot do that
    colour: str | None
    background: str | None
    size: str | None
    unknown: tuple[str, ...]  # words it has never met, as typed
    corrected: tuple[tuple[str, str], ...]  # (as typed, as read)
    asked: Asked
    hint: Notice | None  # why it cannot be drawn as asked, and what to write instead


def understand(prompt: str) -> Understood:
    """Read a prompt of either language, with or without accents, slips of the finger included."""
    typed = tokens_of(prompt)
    language = language_of(typed)
    tokens, corrected = _corrected(typed, language)
    spans = _spans(tokens, language)
    found = _found(spans)
    return Understood(
        language=language,
        objects=tuple(dict.fromkeys(span.text for span in found.shown)),
        colour=found.colours[0].text if found.colours else None,
        background=found.backgrounds[0].text if found.backgrounds else None,
        size=found.sizes[0].text if found.sizes else None,
        unknown=_of(spans, "unknown"),
        corrected=corrected,
        asked=Asked(
            things=() if found.several or not found.shown else found.shown[0].ids,
            colour=_only(found.colours),
            background=_only(found.backgrounds),
            size=_only(found.sizes),
        ),
        hint=_hint(spans, found) if spans else None,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The pieces of a prompt, by what they are there for."""

    shown: tuple[_Span, ...]  # the things asked for
    counts: tuple[_Span, ...]  # such as the "two" of "two shoes"
    colours: tuple[_Span, ...]
    backgrounds: tuple[_Span, ...]
    sizes: tuple[_Span, ...]
    negated: bool

    @property
    def several(self) -> bool:
        return len({span.ids for span in self.shown}) > 1

    @property
    def two_colours(self) -> bool:
        return any(len({span.ids for span in of}) > 1 for of in (self.colours, self.backgrounds))


def _hint(spans: list[_Span], found: _Found) -> Notice | None:
    """The one thing most worth knowing about this prompt: the first of these that is so."""
    unknown = _of(spans, "unknown")
    long_numbers = [word for word in unknown if word.isdecimal()]
    other_colours = _of(spans, "other colour")
    counts = [span.text for span in found.counts]
    nothing = not found.shown
    either = any(span.kind == "colour" and len(span.ids) > 1 for span in spans)
    cases = (
        (found.several, Notice("mini_turbo.hint.two_things")),
        (long_numbers, Notice("mini_turbo.hint.one_digit", _word(long_numbers))),
        (nothing and unknown, Notice("mini_turbo.hint.unknown_thing", _word(unknown))),
        (nothing, Notice("mini_turbo.hint.no_thing")),
        (counts, Notice("mini_turbo.hint.one_only", _word(counts))),
        (found.negated, Notice("mini_turbo.hint.not")),
        (other_colours, Notice("mini_turbo.hint.unknown_colour", _word(other_colours))),
        (either, Notice("mini_turbo.hint.green_or_blue")),
        (found.two_colours, Notice("mini_turbo.hint.two_colours")),
        (unknown, Notice("mini_turbo.hint.unknown_word", _word(unknown))),
    )
    return next((notice for so, notice in cases if so), None)


def _word(words: Sequence[str]) -> dict[str, Fact]:
    return {"word": words[0]} if words else {}


def _of(spans: list[_Span], kind: str) -> tuple[str, ...]:
    return tuple(span.text for span in spans if span.kind == kind)


def _only(spans: tuple[_Span, ...]) -> str | None:
    """The id that all of them share, if they name one."""
    ids = {span.ids for span in spans}
    return next(iter(ids))[0] if len(ids) == 1 and len(spans[0].ids) == 1 else None


# Words and their pieces

_TOKEN = re.compile(r"\d+(?=[^\W\d_])[^\W_]*|\d+|[^\W\d_]+(?:['’][^\W\d_]+)?|[,.;:!?]")
STOPS = frozenset(",.;:!?")


def tokens_of(text: str) -> tuple[str, ...]:
    """Words in small letters, and the marks between them; "t-shirt" is two words."""
    return tuple(_TOKEN.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'")))


def without_accents(text: str) -> str:
    """`Đỏ` -> `Do`: what many people type on a keyboard without Vietnamese."""
    parts = unicodedata.normalize("NFD", text.replace("đ", "d").replace("Đ", "D"))
    return unicodedata.normalize(
        "NFC", "".join(part for part in parts if unicodedata.category(part) != "Mn")
    )


def slips(word: str) -> tuple[str, ...]:
    """`word` with one letter dropped, or two neighbours swapped; the first letter stays."""
    dropped = (word[:i] + word[i + 1 :] for i in range(1, len(word)))
    swapped = (
        word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        for i in range(1, len(word) - 1)
        if word[i] != word[i + 1]
    )
    return tuple(chain(dropped, swapped))


class _Meaning(NamedTuple):
    """One entry of a language's phrase book."""

    tokens: tuple[str, ...]
    kind: str
    ids: tuple[str, ...]
    language: str


@dataclass(frozen=True, slots=True)
class _Span:
    """A piece of the prompt and what it means."""

    text: str
    kind: str
    ids: tuple[str, ...]
    language: str


def _meanings(language: str) -> Iterator[_Meaning]:
    def said(kind: str, phrases: Iterable[str], *ids: str) -> Iterator[_Meaning]:
        for phrase in phrases:
            yield _Meaning(tokens_of(phrase), kind, ids, language)

    for word in CLOTHES:
        yield from said("thing", word.said(language), word.id)
        yield from said(
            "thing",
            (phrase.removeprefix("pair of ") for phrase in word.said(language)),
            word.id,
        )
        if language == ENGLISH:  # plurals
            yield from said("thing", (f"{name}s" for name in word.en if name[-1] != "s"), word.id)
    yield from said("thing", ("dresses",), "dress") if language == ENGLISH else ()
    for digit in DIGITS:
        spoken = digit.said(language)
        yield from said(
            "thing", (f"{before} {n}" for before in DIGIT_WORDS[language] for n in spoken), digit.id
        )
        # Alone it may be a count ("two shoes"); a Vietnamese number word alone is one always.
        yield from said("number", spoken if language == ENGLISH else spoken[1:], digit.id)
    for general in GENERAL:
        yield from said("general", general.said(language), *general.things)
    for colour in COLOURS:
        yield from said("colour", colour.said(language), colour.id)
    if language == VIETNAMESE:
        yield from said("colour", (GREEN_OR_BLUE,), "green", "blue")
    for size in SIZES:
        yield from said("size", size.said(language), size.id)
    yield from said("background", BACKGROUNDS[language])
    yield from said("not", NOT[language])
    yield from said("on", ON if language == ENGLISH else ())
    yield from said("other colour", OTHER_COLOURS[language].split())
    yield from said(
        "common",
        (*REQUESTS[language], *THANKS[language], *FILLERS[language], *COMMON[language].split()),
    )


@dataclass(frozen=True, slots=True)
class _Book:
    """All phrases of a language, found by their words without accents."""

    entries: dict[tuple[str, ...], tuple[_Meaning, ...]]
    longest: int
    plain: frozenset[str]  # every word, without accents
    wishes: dict[str, str]  # slip -> the word it is a slip of, for words that carry a wish


@cache
def _book(language: str) -> _Book:
    entries: dict[tuple[str, ...], list[_Meaning]] = {}
    wishes: set[str] = set()
    for meaning in _meanings(language):
        entries.setdefault(tuple(map(without_accents, meaning.tokens)), []).append(meaning)
        if meaning.kind in ("thing", "general", "number", "colour", "size", "background"):
            wishes.update(meaning.tokens)
    plain = frozenset(chain.from_iterable(entries))
    spelt = sorted(wishes | set(map(without_accents, wishes)))
    return _Book(
        entries={words: tuple(found) for words, found in entries.items()},
        longest=max(map(len, entries)),
        plain=plain,
        wishes={slip: word for word in spelt if len(word) > 4 for slip in slips(word)},
    )


def language_of(tokens: Iterable[str]) -> str:
    """Accents decide; without any, whose words there are more of."""
    words = [token for token in tokens if token not in STOPS]
    if any(without_accents(word) != word for word in words):
        return VIETNAMESE
    english, vietnamese = (
        sum(word in _book(language).plain for word in words) for language in (ENGLISH, VIETNAMESE)
    )
    return VIETNAMESE if vietnamese > english else ENGLISH


def _corrected(
    typed: tuple[str, ...], language: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The words with slips of the finger undone, and which those were."""
    book = _book(language)

    def read(word: str) -> str:
        known = any(without_accents(word) in _book(any_).plain for any_ in (ENGLISH, VIETNAMESE))
        if known or len(word) < 4 or word in REAL_WORDS or not word.isalpha():
            return word
        if word in book.wishes:
            return book.wishes[word]
        long = [cut for cut in slips(word) if len(cut) < len(word) and len(cut) > 2]
        return next((cut for cut in long if cut in book.plain), word)  # a letter too many

    tokens = tuple(map(read, typed))
    return tokens, tuple((was, now) for was, now in zip(typed, tokens, strict=True) if was != now)


def _spans(tokens: tuple[str, ...], language: str) -> list[_Span]:
    """The prompt cut into pieces with a meaning, the longest phrase first."""
    spans: list[_Span] = []
    place = 0
    while place < len(tokens):
        if tokens[place] in STOPS:
            spans.append(_Span(tokens[place], "stop", (), language))
            place += 1
            continue
        meaning = _longest(tokens, place, language)
        length = 1 if meaning is None else len(meaning.tokens)
        text = " ".join(tokens[place : place + length])
        if meaning is not None:
            spans.append(_Span(text, meaning.kind, meaning.ids, meaning.language))
        elif len(text) > 1:
            spans.append(_Span(text, "unknown", (), language))
        place += length
    return spans


def _longest(tokens: tuple[str, ...], place: int, language: str) -> _Meaning | None:
    """The longest phrase that starts here, of the prompt's language before the other one."""
    other = VIETNAMESE if language == ENGLISH else ENGLISH
    most = max(_book(ENGLISH).longest, _book(VIETNAMESE).longest)
    accents = any(without_accents(token) != token for token in tokens)
    for length in range(min(most, len(tokens) - place), 0, -1):
        words = tokens[place : place + length]
        plain = tuple(map(without_accents, words))
        for meaning in _book(language).entries.get(plain, ()):
            # Who writes accents and then "voi" means an elephant, not "với".
            exact = accents and meaning.kind == "common"
            if words == meaning.tokens or (not exact and _same(words, meaning.tokens)):
                return meaning
        for meaning in _book(other).entries.get(plain, ()):
            # "giày màu red": but not Vietnamese "to" (large) or "ba" (three) in English.
            clear = len(words[0]) > 2 and meaning.kind in ("thing", "colour", "background")
            if words == meaning.tokens and clear:
                return meaning
    return None


def _same(typed: tuple[str, ...], meant: tuple[str, ...]) -> bool:
    """Letter for letter; a word typed without any accent stands for one with them."""
    return all(t in (m, without_accents(m)) for t, m in zip(typed, meant, strict=True))


# What belongs to what


def _found(spans: list[_Span]) -> _Found:
    colours, backgrounds = _placed_colours(spans)
    shown, counts = _things(spans)
    return _Found(
        shown=shown,
        counts=counts,
        colours=colours,
        backgrounds=backgrounds,
        sizes=tuple(span for span in spans if span.kind == "size"),
        negated=any(span.kind == "not" for span in spans),
    )


def _things(spans: list[_Span]) -> tuple[tuple[_Span, ...], tuple[_Span, ...]]:
    """(things asked for, counts of them)."""
    things = [span for span in spans if span.kind == "thing"]
    general = [span for span in spans if span.kind == "general"]
    numbers = [span for span in spans if span.kind == "number"]
    # Without accents, "dep" is dép (sandal) or đẹp (beautiful).
    things = [span for span in things if span.text != "dep"] or things
    clothes = things or [span for span in general if span.ids != GENERAL[-1].things]
    if numbers and not clothes:
        return tuple(numbers), ()
    # "a shoe, a sneaker": the general word adds a thing only where it is another one.
    others = [span for span in general if not things or not set(things[0].ids) <= set(span.ids)]
    counts = [span for span in numbers if span.ids not in (("0",), ("1",))]
    return (*things, *others), tuple(counts)


def _placed_colours(spans: list[_Span]) -> tuple[tuple[_Span, ...], tuple[_Span, ...]]:
    """(colours of the thing, colours of the background); negated ones are neither."""
    colours: list[_Span] = []
    backgrounds: list[_Span] = []
    for place, span in enumerate(spans):
        if span.kind != "colour":
            continue
        before = next((s for s in reversed(spans[:place]) if not _between(s)), None)
        after = next((s for s in spans[place + 1 :] if s.text not in ("plain", "solid")), None)
        if before is not None and before.kind == "not":
            continue
        (backgrounds if _of_background(before, after) else colours).append(span)
    return tuple(colours), tuple(backgrounds)


_LINKS = frozenset(tokens_of("a an the plain solid is that màu mau mầu sắc là la một mot"))


def _between(span: _Span) -> bool:
    """Whether it only joins a colour to its word: "nền *màu* trắng"."""
    return span.kind == "common" and span.text in _LINKS


def _of_background(before: _Span | None, after: _Span | None) -> bool:
    if after is not None and after.kind == "background" and after.language == ENGLISH:
        return True
    if before is None:
        return False
    if before.kind == "background" and before.language == VIETNAMESE:
        return True
    alone = after is None or after.kind in ("stop", "common", "not")
    return before.kind == "on" and alone
