"""Counting rounds, and four sentences of which none stands out."""

from __future__ import annotations

import pytest

from core.models.mini_turbo.words import understand
from core.soc.rounds import Round, captions_of, mean_of, share_of
from core.texts import LANGUAGES

REAL, FAKE = True, False


def test_student_and_d_are_counted_on_the_same_digits():
    one = Round("a", (REAL, REAL, FAKE, FAKE), (REAL, FAKE, REAL, FAKE), (0.4, 0.1, 0.3, 0.2))
    assert (one.right, one.d_right) == (2, 4)
    assert one.d_marks == (REAL, FAKE, REAL, FAKE), "half of them, however low its beliefs are"
    assert (share_of([one, one]), share_of([one], d=True)) == (0.5, 1.0)
    assert share_of([]) is None


def test_the_mean_of_the_class_weighs_each_student_once():
    assert mean_of({"8": 1, "4": 3, "scrap": 9}) == (5.0, 4)
    assert mean_of({}) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_four_sentences_differ_in_two_things_and_mini_turbo_knows_every_word(language):
    for seed in range(20):
        sentences = captions_of(seed).sentences(language)
        asked = [understand(sentence).asked for sentence in sentences]
        assert len(set(sentences)) == 4
        kinds = [{one.things for one in asked}, {one.colour for one in asked}]
        kinds.append({one.background for one in asked})
        assert sorted(map(len, kinds)) == [1, 2, 2]  # of each two: none is the odd one out
        assert not any(understand(sentence).unknown for sentence in sentences)
