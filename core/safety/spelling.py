"""One sentence, step by step without its disguises, so that a list of words can be held against it.

Each step undoes one trick: letters of another width or font, marks that nobody sees, letters of
another alphabet that look the same, spaces between the letters, digits for letters, stretched
words, and, in Vietnamese, the tone on the other vowel and accents left out.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator

STEPS = (
    "typed",
    "composed",
    "visible",
    "letters",
    "joined",
    "leet",
    "stretched",
    "tones",
    "accents",
)
STOP = ""  # among the words of a text: no phrase reaches across

# Letters of other alphabets that look like a Latin one; where several fit, the one that is used
# to fool readers. Fonts and widths are no concern of this table: NFKC knows them.
_LOOK_ALIKE = str.maketrans(
    "АВЕЅІЈКМНОРСТУХԚԜҮИЯДПбвгпеѕіјкмнорстухԁԛԝһүияшцьа"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧΛΣαβγδεηικμνορστυχως"  # Greek
    "օսհոցᎪᎬᏢᎢ"  # Armenian, Cherokee
    "ɑɡıɩʋəɛǀðÐƉ",  # Latin; the last three are typed for the Vietnamese đ
    "ABESIJKMHOPCTYXQWYNRANbbrnesijkmhopctyxdqwhynrwuba"
    "ABEZHIKMNOPTYXAEabydenikuvopotuxwc"
    "ouhngAEPT"
    "agiiueelđĐĐ",
)
_LATIN_NAME = re.compile(
    r"(?:LATIN|NEGATIVE (?:SQUARED|CIRCLED) LATIN|REGIONAL INDICATOR SYMBOL)"
    r".*(?:LETTER|CAPITAL) ([A-Z])(?: WITH [A-Z ]+)?"
)
_BLANKS = "\u115f\u1160\u3164\uffa0\u2800"  # letters by their category, yet nothing is to be seen

_LEET = dict(zip("0345789@$€£¥", "oeastbgasely", strict=True))
_EITHER = "1!|"  # i or l

_PIECE = re.compile(r"[^\W_]+|(?<!\S)[@$!|€](?!\S)")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_CHAIN = re.compile(r"[^\W_]+(?:[-.*'’_~|·•]+[^\W_]+)+")
_APART = (("put", "in"),)  # two words of their own, which make a name only when joined
_SIGNED = re.compile(r"[^\W_](?:[^\W_]|[@$!|€£¥])*|[@$€£¥](?:[^\W_]|[@$!|€£¥])+")
_CAPITAL_I = re.compile(r"I(?=[a-z])|(?<=[a-z])I")
_STRETCHED = re.compile(r"([^\W\d_])\1{2,}")
_LONGEST_GAP = 3  # marks between two words of a phrase, or between two letters of a word
_MOST_READINGS = 16

# A tone stands on the first or on the second vowel of these pairs, as one was taught.
_TONES = "\u0300\u0301\u0309\u0303\u0323"
_TONE_PAIRS = {
    unicodedata.normalize("NFC", first + tone + second): unicodedata.normalize(
        "NFC", first + second + tone
    )
    for first, second in ("oa", "oe", "uy")
    for tone in _TONES
}
_OLD_TONES = re.compile("|".join(_TONE_PAIRS))


def readings(prompt: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(step, the sentence after it), each step on top of the ones before.

    A step that can be taken in several ways leaves several texts, the plainest first. The steps
    "tones" and "accents" are left to whoever compares the words: see `without_accents`.
    """
    steps: dict[str, Callable[[str], Iterator[str]]] = {
        "composed": lambda text: iter((composed(text),)),
        "visible": lambda text: iter((visible(text),)),
        "letters": _in_latin_letters,
        "joined": _joined,
        "leet": _without_leet,
        "stretched": _squeezed,
    }
    texts: tuple[str, ...] = (prompt,)
    found = [("typed", texts)]
    for name, step in steps.items():
        made = dict.fromkeys(reading for text in texts for reading in step(text))
        texts = tuple(made)[:_MOST_READINGS]
        found.append((name, texts))
    return tuple(found)


def tidy(text: str) -> str:
    """The steps that leave the words as they are: how rules are written down, and idempotent."""
    return latin_letters(visible(composed(text)))


def composed(text: str) -> str:
    """NFKC: a letter and its accents as one, every width and font as the plain letter."""
    return unicodedata.normalize("NFKC", text)


def visible(text: str) -> str:
    """Without what shows nothing: zero-width and direction marks, controls, loose accents."""
    shown = "".join(" " if c.isspace() else c for c in text if c.isspace() or not is_hidden(c))
    return unicodedata.normalize("NFKC", shown)


def is_hidden(char: str) -> bool:
    """Formats, controls, private and unassigned code points, and accents that found no letter."""
    return unicodedata.category(char) in (
        "Cf",
        "Cc",
        "Co",
        "Cn",
        "Cs",
        "Mn",
        "Me",
    ) or (char in _BLANKS)


def latin_letters(text: str) -> str:
    """Small Latin letters in place of those that look like them. Vietnamese letters stay."""
    folded = "".join(map(_latin, text)).casefold()
    return visible("".join(map(_latin, folded)))  # a small letter may have a look-alike of its own


def _in_latin_letters(text: str) -> Iterator[str]:
    """A second reading takes a capital I beside small letters for a small L."""
    yield latin_letters(text)
    yield latin_letters(_CAPITAL_I.sub("l", text))


@functools.lru_cache(maxsize=4096)
def _latin(char: str) -> str:
    if char.isascii() or char in "đĐ":
        return char
    if (base := char.translate(_LOOK_ALIKE)) != char:
        return base
    decomposed = unicodedata.normalize("NFD", char)
    if decomposed != char:  # ё is e with an accent; é stays as it is
        base = decomposed[0].translate(_LOOK_ALIKE)
        return base if base != decomposed[0] else char
    named = _LATIN_NAME.fullmatch(unicodedata.name(char, ""))
    return named[1].lower() if named else char


def _joined(text: str) -> Iterator[str]:
    """Letters that stand alone brought together: "p u t i n", "T.r.u.m.p"; but no two words.

    Further readings: a first "a" that is the article, and words cut by a mark such as "pu-tin".
    """
    plain = _join_letters(text, article=False)
    yield plain
    yield _CHAIN.sub(lambda chain: _unchained(chain[0]), plain)
    yield _join_letters(text, article=True)


def _join_letters(text: str, *, article: bool) -> str:
    pieces = list(_PIECE.finditer(text))
    out: list[str] = []
    end = place = 0
    while place < len(pieces):
        run = _run_of_letters(text, pieces, place)
        out.append(text[end : pieces[place].start()])
        if len(run) > 1:
            out.append(_spoken(text, run, article=article))
            place += len(run)
        else:
            out.append(pieces[place][0])
            place += 1
        end = pieces[place - 1].end()
        if run and text[end - 2 : end + 1] == f".{pieces[place - 1][0]}.":
            end += 1  # the last dot of an abbreviation ends no sentence
    return "".join((*out, text[end:]))


def _run_of_letters(text: str, pieces: list[re.Match[str]], place: int) -> list[re.Match[str]]:
    """The pieces from `place` on that are one letter each and near each other; [] for too few."""
    run: list[re.Match[str]] = []
    for piece in pieces[place:]:
        if len(piece[0]) != 1:
            break
        if run and len(text[run[-1].end() : piece.start()].strip()) > _LONGEST_GAP:
            break
        run.append(piece)
    abbreviated = len(run) == 2 and text[run[0].end() : run[1].start()] == "."  # i.d.
    long_enough = len(run) > 2 or abbreviated
    return run if long_enough and sum(piece[0].isalpha() for piece in run) > 1 else []


def _spoken(text: str, run: list[re.Match[str]], *, article: bool) -> str:
    """The run as words: where some gaps are wider than others, they are what stands between."""
    gaps = [text[a.end() : b.start()] for a, b in itertools.pairwise(run)]
    wide = max(map(len, gaps))
    words = [run[0][0]]
    for gap, piece in zip(gaps, run[1:], strict=True):
        between = " " if len(gap) == wide and wide > min(map(len, gaps)) and gap.isspace() else ""
        words.append(between + piece[0])
    spoken = "".join(words)
    return f"a {spoken[1:]}" if article and spoken[0] == "a" and len(spoken) > 3 else spoken


def _unchained(chain: str) -> str:
    pieces = re.findall(r"[^\W_]+", chain)
    return chain if tuple(pieces) in _APART else "".join(pieces)


def _without_leet(text: str) -> Iterator[str]:
    """Digits and signs as the letters that they stand for, in words that hold a letter."""
    for either in "il":
        table = str.maketrans({**_LEET, **dict.fromkeys(_EITHER, either)})
        yield _SIGNED.sub(functools.partial(_unleeted, table), text)


def _unleeted(table: dict[int, str], found: re.Match[str]) -> str:
    word = found[0]
    if not any(map(str.isalpha, word)):
        return word
    core = word.rstrip("!|")  # "wow!" ends with a mark
    return core.translate(table) + word[len(core) :]


def _squeezed(text: str) -> Iterator[str]:
    """Letters that stand three times or more, as one and as two: "truuump", "messsi"."""
    for times in (1, 2):
        yield _STRETCHED.sub(r"\1" * times, text)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in small letters, with `STOP` where a phrase ends."""
    found: list[str] = []
    end: int | None = None
    for word in _WORD.finditer(text := text.casefold()):
        if end is not None and _stops(text[end : word.start()]):
            found.append(STOP)
        found.append(word[0])
        end = word.end()
    return tuple(found)


def _stops(gap: str) -> bool:
    marks = " ".join(gap.split()) if gap.strip() else ""
    return len(marks) > _LONGEST_GAP or re.search(r"[,.;:!?]\s", gap) is not None


def with_second_tones(text: str) -> str:
    """The tone on the second vowel of oa, oe, uy: "hòa" and "hoà" become the same."""
    return _OLD_TONES.sub(lambda pair: _TONE_PAIRS[pair[0]], text)


def without_accents(text: str) -> str:
    """Without any accent; đ is a d with one."""
    return "".join(letter for letter, _ in _accented(text))


@functools.lru_cache(maxsize=4096)
def is_accented(word: str) -> bool:
    return any(accents for _, accents in _accented(word))


@functools.lru_cache(maxsize=4096)
def may_be(typed: str, meant: str) -> bool:
    """Whether `typed` is `meant` with none, some or all of its accents."""
    pairs = _accented(typed), _accented(meant)
    return len(pairs[0]) == len(pairs[1]) and all(
        letter == other and accents <= others
        for (letter, accents), (other, others) in zip(*pairs, strict=True)
    )


@functools.lru_cache(maxsize=4096)
def _accented(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Each letter, and the accents it carries."""
    found: list[tuple[str, frozenset[str]]] = []
    for char in unicodedata.normalize("NFD", text):
        if unicodedata.category(char) == "Mn":
            if found:
                found[-1] = (found[-1][0], found[-1][1] | {char})
        elif char in "đĐ":
            found.append(("d" if char == "đ" else "D", frozenset("-")))
        else:
            found.append((char, frozenset()))
    return tuple(found)
