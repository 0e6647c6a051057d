"""The 1,000 classes of ImageNet: English names by index, Vietnamese ones for the common things.

The English names are those of torchvision's weights, in the same order; a test compares them. Some
differ in capitals alone ("cardigan" is a jacket, "Cardigan" a dog), so a class is its index.
Needs no torch.
"""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.problems import Problem

FILE = Path(__file__).with_name("image_classes.tsv")  # index, English, Vietnamese or nothing
COUNT = 1_000
CLASSIFIERS = ("con", "cái", "quả")  # of the language: a tiger is "con hổ", or "hổ"
NEAR = 4  # names offered for one that does not exist
USUAL = (859, 954, 963)  # toaster, banana, pizza: offered where nothing is near


@dataclass(frozen=True, slots=True)
class ImageClass:
    """One thing that the classifiers know."""

    index: int
    english: str
    vietnamese: str  # "" where nobody has named it yet

    def label(self, language: str) -> str:
        """Its name for a reader; Vietnamese readers see both, since the web knows the English."""
        if language != "vi" or not self.vietnamese:
            return self.english
        return f"{self.vietnamese} ({self.english})"


@cache
def image_classes() -> tuple[ImageClass, ...]:
    """All classes, in the order of their indices."""
    rows = (line.split("\t") for line in FILE.read_text("utf-8").splitlines())
    return tuple(ImageClass(int(index), english, vi) for index, english, vi in rows)


def label(index: int, language: str = "en") -> str:
    return image_classes()[index].label(language)


def targets(language: str) -> tuple[ImageClass, ...]:
    """All classes in the order of a searchable list: those with a name in this language first."""
    named = [one for one in image_classes() if language != "vi" or one.vietnamese]
    rest = [one for one in image_classes() if language == "vi" and not one.vietnamese]
    return (
        *sorted(named, key=lambda one: _folded(one.label(language))),
        *sorted(rest, key=lambda one: _folded(one.english)),
    )


def class_named(text: str) -> int:
    """Index of the class: by its index, or by its name in either language, accents or not.

    Raises Problem, with the near ones, where there is none or where the name fits several.
    """
    wanted = " ".join(text.split())
    if wanted.isdecimal():
        return checked(int(wanted))
    exact = [one for one in image_classes() if wanted and wanted in (one.english, one.vietnamese)]
    fitting = exact or [one for one in image_classes() if _folded(wanted) in _names(one)]
    if len(fitting) == 1:
        return fitting[0].index
    if fitting:
        raise Problem("problem.class_ambiguous", name=wanted, near=_listed(fitting))
    raise Problem("problem.class_unknown", name=wanted, near=_listed(_near(wanted)))


def checked(index: int) -> int:
    """The index, if it is one. An index out of range would end the whole CUDA process, so nothing
    reaches a device unchecked. Raises Problem."""
    if not 0 <= index < COUNT:
        raise Problem("problem.class_index", index=index, last=COUNT - 1)
    return index


def _near(wanted: str) -> list[ImageClass]:
    """Those with the word in their name, then those spelled much like it."""
    folded = _folded(wanted)
    by_name = {name: one for one in image_classes() for name in _names(one)}
    holding = [one for name, one in by_name.items() if folded in name.split()]
    alike = difflib.get_close_matches(folded, by_name, n=NEAR, cutoff=0.6)
    found = [*holding, *(by_name[name] for name in alike)]
    return list(dict.fromkeys(found or [image_classes()[index] for index in USUAL]))[:NEAR]


@cache
def _names(one: ImageClass) -> tuple[str, ...]:
    """As they are compared; a Vietnamese one also without its classifier, as it may be typed."""
    names = [_folded(name) for name in (one.english, one.vietnamese) if name]
    word, _, rest = one.vietnamese.partition(" ")
    return (*names, _folded(rest)) if word in CLASSIFIERS and rest else tuple(names)


def _listed(classes: list[ImageClass]) -> str:
    return ", ".join(f"{one.english} ({one.index})" for one in classes)


def _folded(text: str) -> str:
    """Lower case, without accents: `Máy nướng` and `may nuong` are one."""
    apart = unicodedata.normalize("NFD", text.casefold().replace("đ", "d"))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
