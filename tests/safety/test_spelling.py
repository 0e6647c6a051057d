"""The steps that take a sentence's disguises off."""

from __future__ import annotations

import random
import sys
import unicodedata

import pytest

from core.safety import spelling


def last_texts(prompt: str, step: str) -> tuple[str, ...]:
    return dict(spelling.readings(prompt))[step]


@pytest.mark.parametrize(
    ("step", "typed", "expected"),
    [
        ("composed", "ｔｒｕｍｐ", "trump"),
        ("composed", "𝓽𝓻𝓾𝓶𝓹", "trump"),
        ("composed", unicodedata.normalize("NFD", "khỏa thân"), "khỏa thân"),
        ("visible", "tr\u200bu\u2060mp", "trump"),
        ("visible", "\u202eputin\u202c", "putin"),
        ("visible", "t\u0336r\u0336u\u0336m\u0336p\u0336", "trump"),
        ("visible", "id\u00a0card", "id card"),
        ("letters", "Τrumр", "trump"),  # Greek tau, Cyrillic er
        ("letters", "ᴛʀᴜᴍᴘ", "trump"),
        ("letters", "🅣🅡🅤🅜🅟", "trump"),
        ("letters", "tɾump", "trump"),
        ("letters", "Ðường", "đường"),
        ("letters", "Đường phố", "đường phố"),
        ("joined", "p u t i n", "putin"),
        ("joined", "T.r.u.m.p", "trump"),
        ("joined", "p_u-t i*n", "putin"),
        ("joined", "x i  j i n p i n g", "xi jinping"),
        ("joined", "i.d. card", "id card"),
        ("leet", "0b4m4", "obama"),
        ("leet", "e1on", "elon"),
        ("leet", "$ex", "sex"),
        ("stretched", "truuuump", "trump"),
        ("stretched", "messssi", "messi"),
    ],
)
def test_each_step_undoes_its_trick(step, typed, expected):
    assert expected in last_texts(typed, step)


@pytest.mark.parametrize(
    ("step", "typed"),
    [
        ("joined", "put in a box"),
        ("joined", "put-in"),
        ("joined", "ô tô và y tế"),
        ("joined", "7 3 1"),
        ("leet", "2025"),
        ("leet", "number 7 and number 10"),
        ("leet", "wow!"),
        ("stretched", "a cool book"),
    ],
)
def test_a_step_leaves_ordinary_words_alone(step, typed):
    assert last_texts(typed, step) == (typed,)


def test_a_tone_may_stand_on_either_vowel():
    for one, other in (("hòa", "hoà"), ("khỏe", "khoẻ"), ("thúy", "thuý"), ("hủy", "huỷ")):
        assert spelling.with_second_tones(one) == spelling.with_second_tones(other) == other


def test_accents_may_be_left_out_but_not_changed():
    assert spelling.may_be("than", "thân")
    assert spelling.may_be("thân", "thân")
    assert spelling.may_be("chiêu", "chiếu")
    assert spelling.may_be("duong", "đường")
    assert not spelling.may_be("thần", "thân")
    assert not spelling.may_be("thân", "than")


def random_texts(count: int) -> list[str]:
    """Of every corner of Unicode: letters, marks, emoji, lone surrogates, unassigned."""
    dice = random.Random(8)
    corners = ((0, 0x7F), (0x80, 0x24F), (0x300, 0x5FF), (0x1E00, 0x2FFF), (0, sys.maxunicode))
    return [
        "".join(chr(dice.randint(*dice.choice(corners))) for _ in range(dice.randint(0, 40)))
        for _ in range(count)
    ]


def test_tidying_twice_changes_no_more_than_once():
    for text in random_texts(2_000):
        once = spelling.tidy(text)
        assert spelling.tidy(once) == once, ascii(text)


def test_tidying_knows_every_single_code_point():
    for code in range(0x3000):
        once = spelling.tidy(chr(code))
        assert spelling.tidy(once) == once, hex(code)


def test_the_number_of_readings_stays_small_whatever_is_typed():
    for text in [*random_texts(200), "a1!b.c-d " * 40, "0!1|" * 80]:
        assert all(1 <= len(texts) <= 16 for _, texts in spelling.readings(text))
