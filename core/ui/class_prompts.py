"""For the teacher: what the prompt check has decided today, and the words it kept if it may."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from core.texts import Texts
from core.ui.resources import lab_settings, records

NEWEST = 10  # refused sentences shown; the database holds more


def draw_prompts(say: Texts) -> None:
    """How many sentences were drawn and how many not, by kind; nothing before there was one."""
    counts = records().decisions()
    if not counts:
        return
    today = [count for count in counts if count.day == counts[0].day]
    drawn = sum(count.count for count in today if not count.kind)
    kinds: Counter[str] = Counter()
    for count in today:
        if count.kind:
            kinds[count.kind] += count.count
    st.markdown(say("safety.class.title"))
    st.caption(
        say("safety.class.day", day=say.date(counts[0].day), drawn=drawn, not_drawn=kinds.total())
    )
    for kind, number in kinds.most_common():
        st.caption(say("safety.class.kind", kind=say(f"safety.kind.{kind}"), number=number))
    if lab_settings().keep_refused_prompts:
        for refused in records().refused_prompts(limit=NEWEST):
            st.text(refused.prompt)  # takes no markup: it is whatever somebody typed
