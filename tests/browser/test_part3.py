"""Part 3 as a student meets it: from a sentence to a picture that others can check."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import c2pa
import pytest
from playwright.sync_api import expect

from core.texts import texts
from tests.browser.conftest import ROOT, LabServer, StartServer, settled

VI, EN = texts("vi"), texts("en")
JOB_MS = 120_000  # a deadline for the start of a worker, its libraries and a picture

pytestmark = pytest.mark.timeout(300)


MAKE_MODEL = """
import sys
from pathlib import Path
from tests.models.tiny_pipeline import make_tiny_pipeline
make_tiny_pipeline(Path(sys.argv[1]))
"""


@pytest.fixture
def lab_with_untrained_model(start_server: StartServer, tmp_path: Path) -> LabServer:
    """A lab whose mini-turbo has learnt nothing: it draws noise, in no time.

    The model is made beside the start of the server, by a process that may import torch.
    """
    folder = tmp_path / "mini-turbo"
    making = subprocess.Popen([sys.executable, "-c", MAKE_MODEL, str(folder)], cwd=ROOT)
    server = start_server(LAB_MINI_TURBO_DIR=str(folder))
    assert making.wait(JOB_MS / 1000) == 0
    return server


def test_a_sentence_becomes_a_picture_whose_download_says_who_made_it(
    lab_with_untrained_model, page
):
    page.goto(f"{lab_with_untrained_model.url}/pictures-from-words")
    settled(page)
    main = page.get_by_test_id("stMain")

    # The rules answer while the sentence is being typed, without a click.
    prompt = main.get_by_role("textbox", name=VI("part3.prompt"))
    prompt.fill("hộ chiếu")
    expect(main.locator(".lab-ruling.refuse")).to_be_visible()
    main.get_by_text(VI("part3.promise")).click()
    draw = main.get_by_role("button", name=VI("part3.run"), exact=True)
    expect(draw).to_be_disabled()
    prompt.fill("giày đỏ trên nền trắng")
    expect(main.locator(".lab-ruling.allow")).to_contain_text("trắng")
    expect(draw).to_be_enabled()
    draw.click()

    picture = main.locator("[class*=st-key-part3-crisp] img")
    expect(picture).to_be_visible(timeout=JOB_MS)
    save = main.get_by_role("button", name=VI("part3.download"))
    expect(save).to_be_visible(timeout=JOB_MS)
    settled(page)
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64
    expect(main.get_by_text(VI("part3.invented"))).to_be_visible()

    with page.expect_download() as download:
        save.click()
    signed = Path(download.value.path()).read_bytes()
    report = json.loads(c2pa.Reader("image/png", io.BytesIO(signed)).json())
    manifest = report["manifests"][report["active_manifest"]]
    assert report["validation_state"] == "Valid"  # whole; whom to trust is for the reader to say
    assert "trainedAlgorithmicMedia" in json.dumps(manifest)
    assert "mini-turbo" in json.dumps(manifest)
    assert "trắng" not in json.dumps(manifest, ensure_ascii=False)  # no sentence unless chosen

    page.reload()
    settled(page)
    expect(prompt).to_have_value("giày đỏ trên nền trắng")
    expect(picture).to_be_visible()
    page.get_by_role("radio", name="en", exact=True).click()
    expect(main.get_by_role("tab", name=EN("part3.tab.inside"))).to_be_visible()
    main.get_by_role("link", name=EN("part3.check_page")).click()
    expect(page.get_by_role("heading", name=EN("provenance.title"))).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
