"""Preflight as a teacher meets it: one gate, its light, and the light after a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from core.texts import texts
from tests.browser.conftest import settled

vi = texts("vi")


@pytest.mark.timeout(120)
def test_one_gate_is_run_its_tile_turns_green_and_stays_so_after_a_reload(lab_server, page):
    page.goto(f"{lab_server.url}/preflight")
    settled(page)
    title = vi("gate.prompts.title")
    page.get_by_test_id("stExpander").filter(has_text=title).locator("summary").click()
    page.get_by_role("button", name=vi("preflight.run_one")).and_(page.locator(":visible")).click()

    green = page.locator(".pf-tile.green").filter(has_text=title)
    expect(green).to_be_visible(timeout=60_000)
    expect(page.locator(".pf-tile.green")).to_have_count(1)

    page.reload()
    settled(page)
    expect(green).to_be_visible()
    expect(green).to_contain_text(vi("preflight.colour.green"))
