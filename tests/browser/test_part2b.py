"""Part 2b as a class meets it: a real server, its workers, and Chromium. Runs on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from core.records.store import Records
from core.texts import texts
from tests.browser.conftest import settled
from tests.ui.feed_stand_ins import race_job

VI, EN = texts("vi"), texts("en")
JOB_MS = 300_000  # a deadline for some sixty steps; seconds on a quiet machine
SMALLEST = "?batch=256&images=1280&large=0&no_wait=0"  # two ways, ten steps a pass

pytestmark = pytest.mark.timeout(600)


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)


def heading(page: Page, label: str):
    return page.get_by_role("heading", name=label, exact=True)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A class in which somebody has raced already."""
    path = tmp_path / "class.db"
    records = Records(path)
    records.rename("minh-token", "Minh")
    records.save(race_job("minh-token", seconds=2.9))
    records.close()
    return f"sqlite:///{path}"


def test_a_student_runs_guesses_and_then_meets_the_diagnosis_and_the_board(
    start_server, database, new_page
):
    server = start_server(LAB_DATABASE_URL=database)
    page, classmate = new_page(), new_page()
    visit(page, server.url + "/feed-the-gpu" + SMALLEST)
    main = page.get_by_test_id("stMain")
    expect(main.get_by_role("cell", name="Minh", exact=True)).to_be_visible()

    main.get_by_role("button", name=VI("panel.run"), exact=True).first.click()
    expect(page.locator(".lab-ways")).to_contain_text(VI("section.resident"), timeout=JOB_MS)
    expect(heading(page, VI("part1.result"))).to_be_visible(timeout=JOB_MS)
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.locator(".lab-feed").first).to_contain_text(VI("section.loader"))
    expect(page.locator(".lab-drawn img")).to_have_count(4)
    expect(page.locator("[data-testid=stVegaLiteChart] :is(canvas, svg)")).not_to_have_count(0)

    causes = page.locator(".lab-causes").locator("visible=true")
    expect(causes).to_have_count(0)  # not before the student has thought
    main.get_by_role("button", name=VI("part2b.guess.data"), exact=True).click()
    expect(causes.first).to_be_visible()
    expect(page.locator(".lab-split")).to_contain_text(VI.count("part2b.students", 1))

    page.get_by_role("radio", name="en", exact=True).click()
    expect(heading(page, EN("part2b.diagnosis"))).to_be_visible()
    page.reload()
    settled(page)
    expect(page.locator(".lab-split")).to_contain_text(EN.count("part2b.students", 1))
    expect(page.get_by_test_id("stException")).to_have_count(0)

    visit(classmate, server.url + "/feed-the-gpu")
    expect(heading(classmate, VI("part2b.starved"))).to_be_visible()
    expect(heading(classmate, VI("part1.result"))).to_have_count(0)


def test_a_batch_that_is_not_on_offer_is_told_and_the_usual_one_kept(lab_server, page):
    visit(page, lab_server.url + "/feed-the-gpu?batch=768")
    expect(page.get_by_text(VI("part2b.default_kept"))).to_be_visible()
    expect(page.get_by_role("slider").first).to_have_attribute("aria-valuetext", "512")
