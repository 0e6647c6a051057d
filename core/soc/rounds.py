"""Rounds of "Real or fake?", and of its second game: which sentence belongs to the picture?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from core.models.mini_turbo.captions import NORMAL, Scene, held_out
from core.models.mini_turbo.words import CLOTHES, COLOURS, ENGLISH, THINGS

FIRST_ROUND = "real_or_fake"  # the question that a student's first round answers in the records


@dataclass(frozen=True, slots=True)
class Round:
    """Eight digits that a student has marked, so that their truth may be told."""

    job: str
    marks: tuple[bool, ...]  # what the student took for real
    truths: tuple[bool, ...]
    beliefs: tuple[float, ...]  # D's, that each is real

    @property
    def right(self) -> int:
        """How many the student told apart."""
        return sum(mark == truth for mark, truth in zip(self.marks, self.truths, strict=True))

    @property
    def d_marks(self) -> tuple[bool, ...]:
        """What D takes for real. It knows, as the student does, that half of them are: so it says
        "real" to those that it believes most, wherever its raw scores lie as a whole."""
        by_belief = sorted(range(len(self.beliefs)), key=lambda n: self.beliefs[n], reverse=True)
        real = set(by_belief[: len(by_belief) // 2])
        return tuple(number in real for number in range(len(self.beliefs)))

    @property
    def d_right(self) -> int:
        """How many D told apart."""
        return sum(mark == truth for mark, truth in zip(self.d_marks, self.truths, strict=True))


def share_of(rounds: Sequence[Round], *, d: bool = False) -> float | None:
    """The student's share of right answers in all rounds, or D's; None before the first."""
    digits = sum(len(one.marks) for one in rounds)
    right = sum(one.d_right if d else one.right for one in rounds)
    return right / digits if digits else None


def mean_of(answers: dict[str, int]) -> tuple[float, int] | None:
    """Mean number right in the first rounds of the class, and of how many students."""
    counts = {int(answer): students for answer, students in answers.items() if answer.isdecimal()}
    students = sum(counts.values())
    if not students:
        return None
    return sum(right * n for right, n in counts.items()) / students, students


@dataclass(frozen=True, slots=True)
class Captions:
    """One picture to be drawn, and four scenes of which `right` is the place of the true one."""

    seed: int
    scenes: tuple[Scene, ...]
    right: int

    def sentences(self, language: str) -> list[str]:
        return [sentence(scene, language) for scene in self.scenes]

    def prompt(self, language: str) -> str:
        """The sentence that the picture is drawn from."""
        return sentence(self.scenes[self.right], language)


def captions_of(seed: int) -> Captions:
    """Two of thing, colour and background in two ways each: no sentence stands out by itself."""
    chance = Random(seed)
    while True:
        thing, other_thing = chance.sample(range(len(THINGS)), 2)
        colour, ground, other_colour, other_ground = chance.sample(range(len(COLOURS)), 4)
        # A digit and a dress are told apart too easily, and held-out pictures are often wrong.
        alike = (thing < len(CLOTHES)) == (other_thing < len(CLOTHES))
        if alike and not held_out(thing, colour, ground):
            break
    true = Scene(thing, colour, ground, NORMAL)
    other = {"thing": other_thing, "colour": other_colour, "background": other_ground}
    one, two = ({name: other[name]} for name in chance.sample(sorted(other), 2))
    scenes = [true, true._replace(**one), true._replace(**two), true._replace(**one, **two)]
    chance.shuffle(scenes)
    return Captions(seed, tuple(scenes), scenes.index(true))


def sentence(scene: Scene, language: str) -> str:
    """The scene as mini-turbo has learnt it, in one plain way."""
    thing, colour, ground = (
        words[place].said(language)[0]
        for words, place in (
            (THINGS, scene.thing),
            (COLOURS, scene.colour),
            (COLOURS, scene.background),
        )
    )
    if language == ENGLISH:
        article = "an" if colour[0] in "aeiou" else "a"
        back = "an" if ground[0] in "aeiou" else "a"
        noun = f"digit {thing}" if scene.is_digit else thing
        return f"{article} {colour} {noun} on {back} {ground} background"
    noun = f"chữ số {thing}" if scene.is_digit else thing
    return f"{noun} màu {colour} trên nền {ground}"
