"""What every page says of a recording made on another machine, above its charts."""

from __future__ import annotations

import streamlit as st

from core.recordings import Replay
from core.telemetry.readings import Gpu
from core.texts import Texts


def draw_badge(replay: Replay, say: Texts) -> None:
    """That it is a recording, of which device and of which day."""
    st.badge(
        say("part1.replay", device=replay.device_name, date=say.date(replay.made_at)),
        icon=":material/videocam:",
        color="orange",
    )


def card_in(replay: Replay) -> Gpu | None:
    """The card that its readings are of, if any."""
    return next((gpu for gpu in replay.machine.gpus if gpu.name == replay.device_name), None)
