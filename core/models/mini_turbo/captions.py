"""The sentences that mini-turbo learns from: one of a picture, in one of many ways. No torch."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from core.models.mini_turbo.words import (
    BACKGROUNDS,
    CLOTHES,
    COLOURS,
    ENGLISH,
    FILLERS,
    GENERAL,
    GREEN_OR_BLUE,
    REQUESTS,
    SIZES,
    THANKS,
    THINGS,
    VIETNAMESE,
    Word,
    slips,
    without_accents,
)

NO_ACCENTS = "vi without accents"
LANGUAGES = {ENGLISH: 0.52, VIETNAMESE: 0.34, NO_ACCENTS: 0.14}  # share of the captions
SIZE_SHARES = (0.14, 0.72, 0.14)
NORMAL = 1  # place in SIZES of the size that nobody says
GREEN, BLUE = 3, 4


class Scene(NamedTuple):
    """What one picture shows: places in THINGS, COLOURS, COLOURS and SIZES."""

    thing: int
    colour: int
    background: int
    size: int

    @property
    def is_digit(self) -> bool:
        return self.thing >= len(CLOTHES)


def held_out(thing: int, colour: int, background: int) -> bool:
    """Whether a combination is never shown in training: about one in ten, by a fixed rule.

    They are the test for composing: words known one by one, never seen together.
    """
    mixed = thing * 7 + colour * 3 + background * 5 + thing * colour + 2 * colour * background
    return colour != background and mixed % 10 == 0


def random_scene(
    chance: Random,
    *,
    digits: float = 0.42,
    two_colours: bool = False,
    held: bool | None = False,
) -> Scene:
    """A scene to draw; `digits` is their share.

    `held`: False for training, True for held-out combinations only, None for any.
    `two_colours`: never the same one twice.
    """
    while True:
        first, last = (10, 19) if chance.random() < digits else (0, 9)
        thing = chance.randint(first, last)
        colour, background = chance.randrange(len(COLOURS)), chance.randrange(len(COLOURS))
        # One colour on itself is hard to see, so it is rarer than chance would have it.
        if colour == background and (two_colours or chance.random() < 0.3):
            continue
        if held is not None and held_out(thing, colour, background) is not held:
            continue
        return Scene(thing, colour, background, chance.choices(range(3), SIZE_SHARES)[0])


def caption(
    chance: Random, scene: Scene, *, language: str | None = None, full: bool = False
) -> str:
    """One sentence for `scene`.

    `full`: thing and both colours are named plainly, and nothing is mistyped. Otherwise some of
    them go unsaid, and some sentences hold slips, fillers and nonsense, as people's prompts do.
    """
    language = language or chance.choices(list(LANGUAGES), list(LANGUAGES.values()))[0]
    spoken = ENGLISH if language == ENGLISH else VIETNAMESE
    said = _Said.of(chance, scene, spoken, full=full)
    sentence = _english(chance, said) if spoken == ENGLISH else _vietnamese(chance, said)
    if chance.random() < 0.12:
        sentence = f"{chance.choice(REQUESTS[spoken])} {sentence}"
        if chance.random() < 0.3:
            sentence += f", {chance.choice(THANKS[spoken])}"
    if not full:
        sentence = _as_people_type(chance, sentence, spoken)
    return without_accents(sentence) if language == NO_ACCENTS else sentence


class _Said(NamedTuple):
    """The words chosen for a scene; "" is left unsaid."""

    noun: str
    is_digit: bool
    colour: str
    background: str
    size: str
    negated: bool  # the colour is named as what it is not

    @classmethod
    def of(cls, chance: Random, scene: Scene, language: str, *, full: bool) -> _Said:
        colour = _common(chance, COLOURS[scene.colour].said(language))
        background = _common(chance, COLOURS[scene.background].said(language))
        size = "" if scene.size == NORMAL else chance.choice(SIZES[scene.size].said(language))
        noun, negated = _noun(chance, scene, language), False
        if not full:
            if scene.colour in (GREEN, BLUE) and language == VIETNAMESE and chance.random() < 0.05:
                colour = GREEN_OR_BLUE
            if chance.random() < 0.03:
                others = [word for place, word in enumerate(COLOURS) if place != scene.colour]
                colour, negated = _common(chance, chance.choice(others).said(language)), True
            elif chance.random() < 0.10:
                colour = ""
            background = "" if chance.random() < 0.12 else background
            size = "" if chance.random() < 0.10 else size
            general = [g for g in GENERAL if THINGS[scene.thing].id in g.things]
            if general and chance.random() < 0.05:
                noun = chance.choice(chance.choice(general).said(language))
        return cls(noun, scene.is_digit, colour, background, size, negated)


def _common(chance: Random, words: tuple[str, ...]) -> str:
    """One of them, the first one oftener than each other."""
    return chance.choice((words[0], *words))


def _noun(chance: Random, scene: Scene, language: str) -> str:
    word: Word = THINGS[scene.thing]
    name = _common(chance, word.said(language))
    if not scene.is_digit:
        return name
    if language == ENGLISH:
        what = ("", "number", "digit", "handwritten", "handwritten number")
        return _joined(chance.choice(what), name)
    before = ("số", "số", "số", "chữ số", "con số")
    return _joined(chance.choice(before), name, chance.choice(("", "", "viết tay")))


def _joined(*words: str) -> str:
    return " ".join(" ".join(words).split()).replace(" ,", ",")


def _a(noun: str) -> str:
    """With its article; plurals go without."""
    if noun.endswith("s") and not noun.endswith("ss") and "pair of" not in noun:
        return noun
    return ("an " if noun[0] in "aeiou8" else "a ") + noun


def _english(chance: Random, said: _Said) -> str:
    noun, is_digit = said.noun, said.is_digit
    late = said.negated or (said.colour and chance.random() < 0.25)
    early = "" if late else said.colour
    split = is_digit and noun.startswith("handwritten ") and chance.random() < 0.5
    if split:  # "a handwritten red seven"
        core = _joined("handwritten", said.size, early, noun.removeprefix("handwritten "))
    else:
        core = _joined(said.size, early, noun)
    if said.negated:
        core = _joined(core, chance.choice(("that is not", "not", "which is not")), said.colour)
    elif late:
        links = ("in", "that is", "written in", "drawn in") if is_digit else ("in", "that is")
        core = _joined(core, chance.choice((*links, "coloured", "colored", "painted")), said.colour)
    named = f"the {core}" if is_digit and chance.random() < 0.5 else _a(core)

    kinds = ("a drawing of",) if is_digit else ("a product photo of", "a studio shot of")
    starts = ("a picture of", "an image of", "a photo of", "a photo of", *kinds)
    start = chance.choice((*starts, "", "", "", ""))
    if not said.background:
        return _joined(start, named if start or chance.random() < 0.6 else core)

    grounds = BACKGROUNDS[ENGLISH]
    fitting = ("backdrop", "paper", "board") if is_digit else grounds[1:4]
    ground = chance.choice(("background",) * 3 + fitting)
    behind = f"{_a(said.background)} {ground}"
    if chance.random() < 0.12:
        if chance.random() < 0.5:
            return f"{behind} with {named}"
        return f"{said.background} {ground}, {core}"
    where = chance.choice(
        (
            f"on {behind}",
            f"on {behind}",
            f"against {behind}",
            f"in front of {behind}",
            f"with {behind}",
            f"on {said.background}",
            f", {said.background} {ground}",
            f"placed on {behind}",
        )
    )
    return _joined(start, named if start or chance.random() < 0.6 else core, where)


def _vietnamese(chance: Random, said: _Said) -> str:
    noun, is_digit = said.noun, said.is_digit
    if not is_digit:
        one = ("một chiếc", "một chiếc", "một cái", "chiếc", "cái", "", "")
        shoe = noun.startswith(("giày", "giầy", "dép", "bốt"))
        noun = _joined(chance.choice((*one, "một đôi", "đôi") if shoe else one), noun)
    colour = _joined(chance.choice(("màu", "màu", "màu", "")) if said.colour else "", said.colour)
    if said.negated:
        colour = _joined(chance.choice(("không phải", "không phải là")), "màu", said.colour)
    parts = (said.size, colour) if chance.random() < 0.6 else (colour, said.size)
    core = _joined(noun, *parts)

    starts = ("ảnh", "hình", "hình vẽ", "bức tranh") if is_digit else ("ảnh", "ảnh chụp", "bức ảnh")
    start = chance.choice((*starts, "hình ảnh", "", "", "", ""))
    if not said.background:
        return _joined(start, core)

    behind = _joined(chance.choice(("", "", "màu")), said.background)
    if chance.random() < 0.12:
        return _joined("nền", behind, chance.choice((",", "với", "và")), core)
    where = chance.choice(
        (
            f"trên nền {behind}",
            f"trên nền {behind}",
            f", nền {behind}",
            f"trên phông {behind}",
            f"với nền {behind}",
            f"trên giấy {behind}" if is_digit else f"trước bức tường {behind}",
            f"phông nền {behind}",
            f"đặt trên nền {behind}",
        )
    )
    return _joined(start, core, where)


def _as_people_type(chance: Random, sentence: str, language: str) -> str:
    """Now and then with filler words, a slip, a word of no meaning, capitals, a full stop."""
    if chance.random() < 0.12:
        fillers = chance.sample(FILLERS[language], chance.choice((1, 1, 2)))
        sentence = ", ".join((sentence, *fillers))
    if chance.random() < 0.05:
        sentence = _with_slip(chance, sentence)
    if chance.random() < 0.05:
        words = sentence.split()
        words.insert(chance.randint(0, len(words)), _nonsense(chance))
        sentence = " ".join(words)
    if chance.random() < 0.10:
        sentence += "."
    return sentence.capitalize() if chance.random() < 0.15 else sentence


def _with_slip(chance: Random, sentence: str) -> str:
    words = sentence.split()
    long = [place for place, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    if long:
        place = chance.choice(long)
        words[place] = chance.choice(slips(words[place]))
    return " ".join(words)


def _nonsense(chance: Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzăâêôơư"
    return "".join(chance.choice(letters) for _ in range(chance.randint(2, 8)))
