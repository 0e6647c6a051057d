"""Part 2 as a class meets it: a real server, its workers, and Chromium. Runs on the CPU."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from core.texts import texts
from tests.browser.conftest import settled

VI, EN = texts("vi"), texts("en")
JOB_MS = 300_000  # a deadline for ten steps and two starts of a worker
ADDRESS = "/watch-it-learn?epochs=1&images_per_epoch=1280"

pytestmark = pytest.mark.timeout(600)


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)


def button(page: Page, label: str) -> Locator:
    return page.get_by_test_id("stMain").get_by_role("button", name=label, exact=True)


def heading(page: Page, label: str) -> Locator:
    return page.get_by_role("heading", name=label, exact=True)


def expect_decoded(picture: Locator) -> None:
    """The picture is there and the browser could read it."""
    expect(picture).to_be_visible(timeout=JOB_MS)
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0


def test_a_training_is_watched_paused_reloaded_and_then_draws_for_its_student(lab_server, new_page):
    page, classmate = new_page(), new_page()
    visit(page, lab_server.url + ADDRESS)
    button(page, VI("panel.run")).click()

    # Paused before its first step, so that nothing below depends on how fast this machine is.
    button(page, VI("panel.pause")).click(timeout=JOB_MS)
    expect(button(page, VI("panel.resume"))).to_be_visible(timeout=JOB_MS)
    expect_decoded(page.locator(".lab-canvas img").first)

    page.reload()
    settled(page)
    expect(button(page, VI("panel.resume"))).to_be_visible()
    page.get_by_role("radio", name="en", exact=True).click()
    expect(button(page, EN("panel.resume"))).to_be_visible()

    visit(classmate, lab_server.url + ADDRESS)
    expect(classmate.get_by_text(VI("panel.nothing_yet"))).to_be_visible()

    button(page, EN("panel.resume")).click()
    expect(heading(page, EN("part2.result"))).to_be_visible(timeout=JOB_MS)
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    for name in ("part2.strip", "part2.animation", "part2.curves", "studio.walk", "studio.inside"):
        expect(heading(page, EN(name))).to_be_visible()
    for picture in page.locator(".lab-canvas img").all():
        expect_decoded(picture)
    with page.expect_download() as download:
        button(page, EN("part2.animation.download")).click()
    assert download.value.suggested_filename.startswith("gan.")

    button(page, EN("studio.walk.draw")).click()
    expect_decoded(page.locator(".lab-canvas.here img"))
    slider = page.get_by_role("slider", name=EN("studio.percent"))
    slider.focus()
    slider.press("End")
    expect(page.get_by_text(EN("studio.walk.caption", percent=100))).to_be_visible(timeout=JOB_MS)

    button(page, EN("studio.many.draw")).click()
    expect_decoded(page.locator(".lab-canvas.many img"))
    button(page, EN("studio.inside.look")).click()
    expect_decoded(page.locator(".lab-layers img").first)
    expect(page.locator(".lab-layers")).to_have_count(2)

    page.reload()
    settled(page)
    expect(heading(page, EN("part2.result"))).to_be_visible()
    for kind in (".here", ".many", ".small"):
        expect(page.locator(f".lab-canvas{kind} img").first).to_be_visible()

    classmate.reload()
    settled(classmate)
    expect(heading(classmate, VI("part2.result"))).to_have_count(0)
    expect(classmate.locator(".lab-canvas img")).to_have_count(0)


def test_a_training_can_be_ended_early_and_what_it_has_is_kept(lab_server, page):
    visit(page, lab_server.url + "/watch-it-learn?epochs=10&images_per_epoch=60000")
    button(page, VI("panel.run")).click()
    expect(page.get_by_text(VI("part2.digits_seen", seen=0)).first).to_be_visible(timeout=JOB_MS)
    button(page, VI("panel.finish")).click()
    expect(heading(page, VI("part2.result"))).to_be_visible(timeout=JOB_MS)
    expect(page.get_by_text(VI.count("part2.stopped_early", 1))).to_be_visible()
    expect(heading(page, VI("studio.walk"))).to_be_visible()


def test_impossible_settings_in_the_address_are_told_and_the_defaults_used(lab_server, page):
    visit(page, lab_server.url + "/watch-it-learn?epochs=99")
    kept = VI("part2.default_kept", epochs=5, images=6_400, seed=0)
    expect(page.get_by_text(kept)).to_be_visible()
