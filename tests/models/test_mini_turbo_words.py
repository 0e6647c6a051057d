"""What a prompt asks for, and the sentences that mini-turbo learns from."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from core.models.mini_turbo.captions import (
    LANGUAGES,
    NORMAL,
    Scene,
    caption,
    held_out,
    random_scene,
)
from core.models.mini_turbo.words import (
    COLOURS,
    SIZES,
    THINGS,
    Asked,
    slips,
    understand,
    without_accents,
)
from core.texts import LANGUAGES as READERS
from core.texts import texts


def told(scene: Scene) -> Asked:
    return Asked(
        things=(THINGS[scene.thing].id,),
        colour=COLOURS[scene.colour].id,
        background=COLOURS[scene.background].id,
        size=None if scene.size == NORMAL else SIZES[scene.size].id,
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_full_caption_is_understood_as_what_it_tells(language: str):
    chance = Random(language)
    for _ in range(2_000):
        scene = random_scene(chance, held=None)
        sentence = caption(chance, scene, language=language, full=True)
        read = understand(sentence)
        assert read.asked == told(scene), sentence
        assert read.hint is None, sentence
        assert not read.unknown, sentence
        assert read.language == language[:2], sentence


def test_the_other_captions_never_tell_another_thing_or_colour_unless_mistyped():
    chance, checked = Random(3), 0
    for _ in range(2_000):
        scene = random_scene(chance)
        read = understand(caption(chance, scene))
        if read.unknown or read.corrected or read.hint:
            continue
        checked += 1
        asked, meant = read.asked, told(scene)
        assert not asked.things or meant.things[0] in asked.things
        assert asked.colour in (None, meant.colour)
        assert asked.background in (None, meant.background)
    assert checked > 1_000


@pytest.mark.parametrize(
    ("prompt", "hint"),
    [
        ("a cat", "unknown_thing"),
        ("con mèo màu đen", "unknown_thing"),
        ("a red sneaker and a blue bag on a white background", "two_things"),
        ("váy và túi xách", "two_things"),
        ("42", "one_digit"),
        ("two red sneakers", "one_only"),
        ("a golden dress", "unknown_colour"),
        ("giày xanh trên nền trắng", "green_or_blue"),
        ("a red and blue dress", "two_colours"),
        ("a sneaker that is not red", "not"),
        ("váy không phải màu đỏ", "not"),
        ("a photo", "no_thing"),
        ("a red sneaker with wings", "unknown_word"),
    ],
)
def test_a_prompt_that_cannot_be_drawn_as_asked_gets_the_hint_that_fits(prompt: str, hint: str):
    notice = understand(prompt).hint
    assert notice is not None
    assert notice.key == f"mini_turbo.hint.{hint}"
    for reader in READERS:
        assert texts(reader).notice(notice)


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("red snaeker on whit background", (("sneaker",), "red", "white", None)),
        (
            "tôi muốn một đôi giày thể thao màu đỏ đặt trên nền màu trắng",
            (("sneaker",), "red", "white", None),
        ),
        (
            "please draw me a nice pair of blue pants on a pink background, thank you",
            (("trousers",), "blue", "pink", None),
        ),
        ("so chin khong lo mau xanh duong tren nen trang", (("9",), "blue", "white", "large")),
        ("a grey dress", (("dress",), "gray", None, None)),
        ("áo thun màu xám, nền ghi", (("t-shirt",), "gray", "gray", None)),
        ("số không màu vàng", (("0",), "yellow", None, None)),
        ("ao so mi trang dep", (("shirt",), "white", None, None)),
        ("A RED BAG!", (("bag",), "red", None, None)),
        ("white background, red boot", (("ankle boot",), "red", "white", None)),
        ("a blue 7 on yellow", (("7",), "blue", "yellow", None)),
        ("one red sneaker", (("sneaker",), "red", None, None)),
        ("dép tổ ong", (("sandal",), None, None, None)),
        ("sneaker màu red trên nền trắng", (("sneaker",), "red", "white", None)),
    ],
)
def test_prompts_as_people_write_them_are_understood(prompt: str, asked: tuple[object, ...]):
    assert understand(prompt).asked == asked


@pytest.mark.parametrize("word", ["tree", "skirt", "crown", "gown", "train", "goat", "house"])
def test_another_word_is_not_taken_for_a_slip_of_the_finger(word: str):
    read = understand(f"a {word}")
    assert read.unknown == (word,)
    assert read.asked.things == ()


def test_who_writes_accents_means_them():
    assert understand("một con voi").unknown == ("voi",)  # an elephant, not "với"
    assert understand("một chiếc áo hông").colour is None  # a hip, not pink


def test_nothing_is_understood_of_nothing():
    read = understand("  ")
    assert (read.objects, read.colour, read.unknown, read.hint) == ((), None, (), None)


def test_what_was_understood_is_told_in_the_prompts_own_words():
    read = understand("một chiếc giày thể thao to màu đỏ trên nền xanh lá")
    assert read.objects == ("giày thể thao",)
    assert (read.colour, read.background, read.size) == ("đỏ", "xanh lá", "to")


def test_one_in_ten_combinations_is_held_out_and_never_met_in_training():
    places = range(len(COLOURS))
    combinations = [
        (thing, colour, ground)
        for thing in range(len(THINGS))
        for colour in places
        for ground in places
        if colour != ground
    ]
    held = [combination for combination in combinations if held_out(*combination)]
    assert 0.08 < len(held) / len(combinations) < 0.12
    assert len({thing for thing, _, _ in held}) == len(THINGS)
    chance = Random(0)
    assert not any(held_out(*random_scene(chance)[:3]) for _ in range(5_000))
    assert all(held_out(*random_scene(chance, held=True)[:3]) for _ in range(200))


def test_captions_are_told_by_their_seed_alone():
    first, again, other = (
        [caption(chance, random_scene(chance)) for _ in range(50)]
        for chance in (Random(1), Random(1), Random(2))
    )
    assert first == again
    assert first != other


def test_captions_hold_what_people_write():
    chance = Random(0)
    said = [caption(chance, random_scene(chance)) for _ in range(4_000)]
    words = Counter(word.strip(".,").lower() for sentence in said for word in sentence.split())
    for word in ("grey", "gray", "xám", "ghi", "xam", "draw", "want", "muốn", "đặt", "đôi", "not"):
        assert words[word] > 3, word
    requests = sum(s.lower().startswith(("please", "draw", "i want", "tôi", "hãy")) for s in said)
    assert 0.02 < requests / len(said) < 0.2


def test_a_slip_drops_a_letter_or_swaps_two():
    assert set(slips("white")) >= {"whit", "wihte", "whte"}
    assert all(slip[0] == "w" and sorted(slip) != [] for slip in slips("white"))
    assert "white" not in slips("white")


def test_accents_fall_off_every_vietnamese_letter():
    assert without_accents("Đỏ, trắng, xanh nước biển, bốt") == "Do, trang, xanh nuoc bien, bot"


def test_reading_a_prompt_needs_no_torch():
    code = (
        "import sys; from core.models.mini_turbo import card, words; words.understand('a cat');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
