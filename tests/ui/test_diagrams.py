"""The diagrams: well-formed, told in both languages, and harmless whatever the words are."""

import re
import xml.etree.ElementTree as ET

import pytest

from core.texts import CONTENT, LANGUAGES, Texts, read_labels, texts
from core.ui.diagrams import adversarial, gan_loop, gpu_starved, sd_turbo_blocks

LABELS = [key for key in read_labels("vi", CONTENT) if key.startswith("diagram.gan.")]
OUTSIDE_THE_DRAWING = ("diagram.gan.title", "diagram.gan.describes")


def drawing(svg: str) -> ET.Element:
    return next(ET.fromstring(svg).iter("svg"))


def lines(svg: str) -> set[str]:
    return {span.text or "" for span in drawing(svg).iter("tspan")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gan_loop_shows_every_label_in(language):
    say = texts(language)
    shown = lines(gan_loop(say))
    for key in LABELS:
        if key not in OUTSIDE_THE_DRAWING:
            assert shown.issuperset(say(key).split("|")), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gan_loop_is_told_to_who_cannot_see_it_in(language):
    say = texts(language)
    svg = drawing(gan_loop(say))
    assert svg.get("role") == "img"
    assert svg.find("title").text == say("diagram.gan.title")
    assert svg.find("desc").text == say("diagram.gan.describes")
    assert say("diagram.gan.describes") in svg.get("aria-label")


def test_both_languages_name_the_sizes_of_the_two_networks():
    assert {"534.081 tham số", "138.817 tham số"} <= lines(gan_loop(texts("vi")))
    assert {"534,081 parameters", "138,817 parameters"} <= lines(gan_loop(texts("en")))


def test_the_drawing_is_one_block_of_html_for_markdown():
    assert gan_loop(texts("vi")).startswith("<figure")
    assert "\n" not in gan_loop(texts("vi"))


def test_words_take_the_colour_of_the_page_so_that_both_themes_can_read_them():
    for text in drawing(gan_loop(texts("en"))).iter("text"):
        on_a_disc = (text.text or "").isdigit()
        assert text.get("fill") == ("#0b1020" if on_a_disc else "currentColor")


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_line_of_text_is_wider_than_its_box_in(language):
    """By the widths of a wide font: 0.57 of the size for a letter, on average."""
    svg = drawing(gan_loop(texts(language)))
    inner = {  # middle of a box -> its width
        float(box.get("x")) + float(box.get("width")) / 2: float(box.get("width"))
        for box in svg.iter("rect")
    }
    for text in svg.iter("text"):
        for span in text.iter("tspan"):
            if float(span.get("x")) in inner and text.get("text-anchor") == "middle":
                wide = len(span.text) * 0.57 * float(text.get("font-size"))
                assert wide < inner[float(span.get("x"))], span.text


def test_labels_cannot_smuggle_in_markup(tmp_path):
    words = "".join(f'msgid "{key}"\nmsgstr "<b>&\'\\" x"\n\n' for key in LABELS)
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "diagrams.po").write_text(words, "utf-8")
    svg = gan_loop(Texts("en", tmp_path))
    assert lines(svg) - {"<b>&'\" x"} == set()
    assert not re.search("<b>", svg)


STARVED = [key for key in read_labels("vi", CONTENT) if key.startswith("diagram.starved.")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_starved_gpu_shows_every_label_and_is_told_to_who_cannot_see_it_in(language):
    say = texts(language)
    svg = drawing(gpu_starved(say))
    shown = lines(gpu_starved(say))
    for key in STARVED:
        if key.endswith((".title", ".describes")):
            assert say(key) in svg.get("aria-label")
        else:
            assert shown.issuperset(say(key).split("|")), key


def test_the_three_ways_share_one_time_scale_and_fill_their_gpu_lane_as_the_course_measured():
    svg = drawing(gpu_starved(texts("en")))
    computing: dict[float, float] = {}  # lane -> width of its green blocks
    ends: dict[float, float] = {}
    for block in svg.iter("rect"):
        if block.get("fill") == "#009e73" and float(block.get("x")) > 235:
            lane, width = float(block.get("y")), float(block.get("width"))
            if lane < 360:  # the last one is the legend's
                computing[lane] = computing.get(lane, 0.0) + width
                ends[lane] = float(block.get("x")) + width
    starved, resident, large = (computing[lane] for lane in sorted(computing))
    assert starved < resident < large
    assert max(ends.values()) <= 1040


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_legend_of_the_starved_gpu_does_not_run_out_of_the_drawing(language):
    svg = drawing(gpu_starved(texts(language)))
    for text in svg.iter("text"):
        for span in text.iter("tspan"):
            wide = len(span.text) * 0.57 * float(text.get("font-size"))
            middle = text.get("text-anchor") == "middle"
            assert float(span.get("x")) + (wide / 2 if middle else wide) <= 1060, span.text


SIZES = {
    "sd-turbo": {"text_encoder": 340.4, "unet": 865.9, "vae": 83.7},
    "mini-turbo": {"text_encoder": 2.01, "unet": 8.49, "vae": 0.95},
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", SIZES)
def test_the_blocks_are_named_with_their_sizes_and_stay_inside_the_drawing(model, language):
    say = texts(language)
    svg = drawing(sd_turbo_blocks(say, model, SIZES[model]))
    shown = {span.text for span in svg.iter("tspan")}
    for name, millions in SIZES[model].items():
        told = say(f"diagram.blocks.{name}", millions=say.number(millions))
        assert shown.issuperset(told.split("|")), name
    for text in svg.iter("text"):
        for span in text.iter("tspan"):
            wide = len(span.text) * 0.57 * float(text.get("font-size"))
            middle = text.get("text-anchor") == "middle"
            assert float(span.get("x")) + (wide / 2 if middle else wide) <= 1060, span.text


@pytest.mark.parametrize("model", SIZES)
def test_the_areas_of_the_blocks_are_to_each_other_as_their_parameters(model):
    svg = drawing(sd_turbo_blocks(texts("en"), model, SIZES[model]))
    coloured = [box for box in svg.iter("rect") if box.get("stroke") != "currentColor"]
    text_encoder, unet, vae = (float(b.get("width")) * float(b.get("height")) for b in coloured)
    sizes = SIZES[model]
    assert text_encoder / unet == pytest.approx(sizes["text_encoder"] / sizes["unet"], rel=0.05)
    assert vae / unet == pytest.approx(sizes["vae"] / sizes["unet"], rel=0.05)


RUN = {"source": "?", "epsilon": 2.0, "steps": 20, "network": "EfficientNet-Lite0"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_attack_is_drawn_with_its_own_figures_in(language):
    say = texts(language)
    svg = adversarial(say, {}, target="<toaster> 100%", **RUN)
    shown = " ".join(lines(svg))
    for fact in ("2/255", "20", "EfficientNet-Lite0", "<toaster> 100%"):
        assert fact in shown
    assert drawing(svg).find("title").text == say("diagram.adversarial.title")


def test_live_pictures_take_the_place_of_the_drawn_cat():
    pictures = {"original": b"png", "noise": b"png", "attacked": b"png"}
    drawn = adversarial(texts("en"), {}, target="toaster", **RUN)
    live = adversarial(texts("en"), pictures, target="toaster", **RUN)
    assert [len(list(drawing(svg).iter("image"))) for svg in (drawn, live)] == [0, 3]
