"""Part 1 as a class meets it: a real server, its workers, and Chromium. Runs on the CPU."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from core.texts import texts
from tests.browser.conftest import settled

VI, EN = texts("vi"), texts("en")
JOB_MS = 300_000  # a deadline for 20 steps; seconds on a quiet machine
STOP_MS = 20_000  # the stop itself takes a second; the rest is for a machine that is busy

pytestmark = pytest.mark.timeout(600)


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)


def button(page: Page, label: str):
    return page.get_by_role("button", name=label, exact=True)


def heading(page: Page, label: str):
    return page.get_by_role("heading", name=label, exact=True)


def press_run(page: Page) -> None:
    page.get_by_test_id("stMain").get_by_role("button", name=VI("panel.run"), exact=True).click()


def expect_running(page: Page, say=VI) -> None:
    expect(button(page, say("panel.cancel"))).to_be_visible()


def test_a_job_outlives_reloads_tabs_and_languages_and_ends_in_a_result(lab_server, new_page):
    address = lab_server.url + "/cpu-or-gpu?steps=20"
    page, classmate = new_page(), new_page()
    visit(page, address)
    press_run(page)
    expect_running(page)

    page.reload()
    settled(page)
    expect_running(page)

    second_tab = page.context.new_page()
    visit(second_tab, address)
    expect_running(second_tab)

    visit(classmate, address)
    expect(classmate.get_by_text(VI("panel.nothing_yet"))).to_be_visible()

    page.get_by_role("radio", name="en", exact=True).click()
    expect_running(page, EN)

    expect(heading(page, EN("part1.result"))).to_be_visible(timeout=JOB_MS)
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("534,081")).not_to_have_count(0)
    expect(page.locator(".lab-figures").first).to_contain_text("times")
    expect(page.locator(".lab-table").first).to_contain_text(EN("section.one_thread"))
    expect(
        page.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg")
    ).not_to_have_count(0)

    expect(heading(second_tab, VI("part1.result"))).to_be_visible()
    page.reload()
    settled(page)
    expect(heading(page, EN("part1.result"))).to_be_visible()

    classmate.reload()
    settled(classmate)
    expect(classmate.get_by_text(VI("panel.nothing_yet"))).to_be_visible()
    expect(heading(classmate, VI("part1.result"))).to_have_count(0)


def test_a_running_job_stops_within_seconds_of_the_click(lab_server, page):
    visit(page, lab_server.url + "/cpu-or-gpu?steps=200")
    press_run(page)
    expect(page.get_by_role("progressbar").first).to_be_visible(timeout=JOB_MS)
    button(page, VI("panel.cancel")).click()
    expect(page.get_by_text(VI("panel.stopped"))).to_be_visible(timeout=STOP_MS)
    expect(button(page, VI("panel.run_again"))).to_be_enabled()


def test_an_impossible_number_of_steps_in_the_address_is_told_and_the_default_used(
    lab_server, page
):
    visit(page, lab_server.url + "/cpu-or-gpu?steps=9999")
    expect(page.get_by_text(VI("part1.default_kept", steps=100))).to_be_visible()
    expect(page.get_by_role("slider").first).to_have_value("100")
