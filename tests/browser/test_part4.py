"""Part 4 as a student meets it: a cat becomes a banana, leaves as a file, and comes back as one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from core.data import photos
from core.data.image_classes import label
from core.texts import texts
from tests.browser.conftest import settled

VI, EN = texts("vi"), texts("en")
BANANA = 954
JOB_MS = 120_000  # a deadline for the start of a worker, its libraries and an attack

pytestmark = pytest.mark.timeout(300)


def test_a_cat_becomes_a_banana_and_its_file_still_fools_when_it_comes_back(
    lab_server, page, tmp_path: Path
):
    page.goto(f"{lab_server.url}/fool-the-classifier")
    settled(page)
    main = page.get_by_test_id("stMain")

    # The target is found by typing a part of either name.
    target = main.get_by_role("combobox", name=re.compile(VI("part4.target")))
    target.fill("banana")
    page.get_by_role("option", name=label(BANANA, "vi")).click()
    settled(page)
    run = main.locator(".st-key-run-attack button")
    run.click()
    verdict = main.locator(".p4-verdict")
    expect(verdict).to_contain_text(VI("part4.verdict.fooled"), timeout=JOB_MS)
    expect(verdict).to_contain_text("quả chuối")
    settled(page)
    expect(verdict).to_be_in_viewport(ratio=1)  # nothing to scroll for
    expect(main.locator(".p4-sum")).to_be_in_viewport(ratio=1)
    expect(main.locator("figure svg image")).to_have_count(3)  # the diagram shows this very run

    # A click changes how the pictures are compared.
    main.get_by_role("radio", name=VI("part4.view.swap")).click()
    over = main.locator(".p4-turns .stage .over")
    expect(over).to_have_css("opacity", "0")
    main.locator(".p4-turns").hover()
    expect(over).to_have_css("opacity", "1")

    with page.expect_download() as download:
        main.get_by_role("button", name=VI("part4.download")).click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    height, width, _ = photos.decoded(file.read_bytes()).shape
    assert (height, width) == (photos.SIDE, photos.SIDE)

    # A file that is no picture is refused in one sentence; then the downloaded one comes back.
    main.get_by_role("radio", name=re.compile(VI("part4.picture.own"))).click()
    settled(page)
    box = main.locator("input[type=file]")
    box.set_input_files({"name": "trick.png", "mimeType": "image/png", "buffer": b"no picture"})
    expect(main.get_by_text(VI("problem.photo_none"))).to_be_visible()
    settled(page)
    box.set_input_files(file)
    expect(main.locator(".st-key-part4-forget")).to_be_visible()
    settled(page)
    run.click()
    expect(verdict).to_contain_text(VI("part4.downloaded"), timeout=JOB_MS)
    expect(verdict).to_contain_text("quả chuối")

    page.reload()
    settled(page)
    expect(verdict).to_contain_text(VI("part4.downloaded"))
    page.get_by_role("radio", name="en", exact=True).click()
    expect(verdict).to_contain_text(EN("part4.downloaded"))
    main.get_by_role("button", name=EN("part4.own.forget"), exact=True).click()
    expect(main.locator(".st-key-part4-forget")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)
