"""Models and their files: what is here, under which licence; the teacher fetches what is not."""

from __future__ import annotations

import html

import streamlit as st

from core.models.assets import MIB, Asset, State, assets, state_of
from core.models.fetches import Fetching
from core.texts import Texts, texts
from core.ui import resources
from core.ui.visitor import visitor

TICK_SECONDS = 1.0
STATES = {
    State.HERE: "green",
    State.BEGUN: "amber",
    State.BROKEN: "red",
    State.MISSING: "dark",
}


def draw_assets(say: Texts) -> None:
    """One row an asset; while something is being fetched, the rows are drawn again each second."""
    st.header(say("preflight.assets"), divider="blue")
    teacher = visitor().teacher
    st.markdown(say("preflight.assets.teacher" if teacher else "preflight.assets.others"))
    busy = resources.fetches().busy
    st.fragment(_draw_rows, run_every=TICK_SECONDS if busy else None)(busy)


def _draw_rows(busy: bool) -> None:
    say = texts(visitor().language)
    if busy and not resources.fetches().busy:
        st.rerun()  # the last one is over: no more need to tick
    for asset in assets(resources.lab_settings()).values():
        with st.container(border=True, key=f"preflight-asset-{asset.id}"):
            _draw_asset(asset, say)


def _draw_asset(asset: Asset, say: Texts) -> None:
    fetching = resources.fetches().of(asset.id)
    words, action = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with words:
        st.html(asset_html(asset, say))
    with action:
        if fetching is not None and not fetching.over:
            _draw_progress(fetching, say)
        elif asset.files and state_of(asset) is not State.HERE:
            if visitor().teacher:
                _draw_fetch(asset, say)
            else:
                option = " --accept-licence" if asset.licence.accept else ""
                st.code(
                    f"python -m core assets fetch {asset.id}{option}",
                    language=None,
                    wrap_lines=True,
                )
        if fetching is not None and fetching.problem is not None:
            st.warning(say.notice(fetching.problem), icon=":material/cloud_off:")
        elif fetching is not None and fetching.done:
            st.caption(say("preflight.assets.done"))


def asset_html(asset: Asset, say: Texts) -> str:
    """Name, state, size, what for, licence, and where it lies."""
    state = state_of(asset)
    size = say.mib(asset.mib) if asset.mib >= 10 else say("unit.mib", value=say.number(asset.mib))
    place = str(asset.folder) if visitor().teacher and asset.folder is not None else ""
    licence = html.escape(asset.licence.name)
    if asset.licence.page.startswith("https://"):
        address = html.escape(asset.licence.page, quote=True)
        licence = f"<a href='{address}' target='_blank' rel='noopener'>{licence}</a>"
    return (
        f"<div class='pf-asset {STATES[state]}'><p><b>{html.escape(asset.id)}</b> "
        f"<span class='state'>{html.escape(say(f'asset.state.{state}'))}</span> "
        f"{html.escape(size)} · {licence}</p>"
        f"<p>{html.escape(say(f'asset.use.{asset.id}'))}</p>"
        f"<p class='place'>{html.escape(place)}</p></div>"
    )


def _draw_fetch(asset: Asset, say: Texts) -> None:
    """Nothing with terms of its own is fetched before somebody has said that they were read."""
    accepted = True
    if asset.licence.accept:
        if say.has(f"asset.terms.{asset.id}"):
            st.caption(say(f"asset.terms.{asset.id}"))
        accepted = st.checkbox(
            say("preflight.assets.accept", licence=asset.licence.name),
            key=f"preflight-accept-{asset.id}",
        )
    begun = state_of(asset) is State.BEGUN
    st.button(
        say("preflight.assets.resume" if begun else "preflight.assets.fetch"),
        icon=":material/download:",
        key=f"preflight-fetch-{asset.id}",
        disabled=not accepted,
        on_click=_begin,
        args=(asset, accepted),
    )


def _begin(asset: Asset, accepted: bool) -> None:
    if visitor().teacher:
        resources.fetches().begin(asset, accepted=accepted)


def _draw_progress(fetching: Fetching, say: Texts) -> None:
    now = fetching.progress
    if now is None:
        st.progress(0.0, text=say("preflight.assets.asking"))
    else:
        parts = [say("cli.asset.so_far", done=now.done / MIB, total=now.total / MIB)]
        if now.seconds_left is not None:
            parts.append(say("cli.left", left=now.seconds_left))
        share = min(1.0, now.done / max(1, now.total))
        st.progress(share, text=" · ".join((*parts, now.file)))
    if visitor().teacher:
        st.button(
            say("panel.cancel"),
            icon=":material/stop:",
            key=f"preflight-stop-{fetching.asset}",
            on_click=resources.fetches().stop,
            args=(fetching.asset,),
        )
