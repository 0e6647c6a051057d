"""A student's own answers in words: of the questions that have words of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.texts import Texts


def answers_in_words(answers: Mapping[str, str], say: Texts) -> list[tuple[str, str]]:
    """Question and answer, where both have a text: `question.<id>`, and `answer.<id>.<answer>` or
    `answer.<family>.<answer>`; the family is what stands before the first point or slash."""
    told = []
    for question, answer in answers.items():
        family = re.split(r"[./]", question)[0]
        labels = (f"answer.{question}.{answer}", f"answer.{family}.{answer}")
        words = next((say(label) for label in labels if say.has(label)), None)
        if say.has(f"question.{question}") and words is not None:
            told.append((say(f"question.{question}"), words))
    return told
