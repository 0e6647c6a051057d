from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest

from core.telemetry.readings import Absences, Reading
from core.texts import LANGUAGES, texts
from core.ui import charts
from core.ui.gauges import gauge, gauge_html, now
from core.ui.panels import Axes, Host, Panel, axes_for, measured
from tests.ui.stand_ins import CARD, GPU_PC, NO_GPU, PC, readings

VI, EN = map(texts, LANGUAGES)
AXES = Axes(seconds=60, vram_gib=12, power_watts=50, cpu_percent=300, cpu_ceiling=200)


def table(data: bytes) -> dict[str, list[float | None]]:
    return pa.ipc.open_stream(io.BytesIO(data)).read_all().to_pydict()


def spec(panel: Panel, **changes: object) -> dict:
    usual = {
        "runs": 1,
        "limit": 100.0,
        "seconds": 60.0,
        "ceiling": None,
        "height": 180,
        "language": "vi",
        "projector": False,
    }
    return charts.panel_spec(panel, **{**usual, **changes})


# Data


def test_memory_is_drawn_in_gib_and_an_absent_value_stays_absent():
    data = table(
        charts.panel_bytes(
            Panel.VRAM, [Reading(0.0, card_used_mib=2048), Reading(0.5, own_vram_mib=512)]
        )
    )
    assert data == {"t": [0.0, 0.5], "card_used_mib": [2.0, None], "own_vram_mib": [None, 0.5]}


def test_a_long_run_is_thinned_to_a_bounded_number_of_points_and_keeps_both_ends():
    long = readings(600, gpu=False)
    kept = charts.spread(long)
    assert len(kept) == charts.MAX_POINTS
    assert (kept[0], kept[-1]) == (long[0], long[-1])
    assert [r.seconds for r in kept] == sorted({r.seconds for r in kept})


def test_viewers_of_one_moment_share_the_very_same_bytes():
    host, seen = Host(GPU_PC, CARD, 2), readings(10, gpu=True)
    first = charts.live_data("a-job", len(seen), seen[-1].seconds, seen, host)
    again = charts.live_data("a-job", len(seen), seen[-1].seconds, list(seen), host)
    assert again.tables[Panel.CPU] is first.tables[Panel.CPU]
    other = charts.live_data("another-job", len(seen), seen[-1].seconds, seen[:3], host)
    assert other.tables[Panel.CPU] != first.tables[Panel.CPU]


def test_a_refresh_of_all_four_panels_stays_below_sixteen_kilobytes():
    seen = readings(48, gpu=True)
    data = charts.live_data("size", len(seen), 48.0, seen, Host(GPU_PC, CARD, 2))
    assert sum(map(len, data.tables.values())) < 16_000


# Axes


def test_axes_end_at_the_cards_memory_and_one_core_above_the_labs_threads():
    axes = axes_for(readings(10, gpu=True), Host(GPU_PC, CARD, 2))
    assert (axes.vram_gib, axes.cpu_percent, axes.cpu_ceiling) == (12, 300, 200)


def test_the_cpu_axis_never_ends_below_what_was_measured():
    axes = axes_for([Reading(1.0, cpu_percent=740)], Host(PC, None, 2))
    assert axes.cpu_percent >= 740


def test_axes_stay_the_same_from_one_second_to_the_next():
    host = Host(GPU_PC, CARD, 2)
    assert axes_for(readings(46, gpu=True), host) == axes_for(readings(58, gpu=True), host)


def test_axes_exist_before_the_first_reading():
    assert axes_for([], Host(PC, None, 2)).limit(Panel.POWER) > 0


@pytest.mark.parametrize("limit", [1, 2, 11.99, 12, 24, 50, 79.6, 100, 140.4, 1000])
def test_marks_run_from_zero_to_the_end_of_the_axis(limit: float):
    marks = charts.ticks(Panel.VRAM, limit)
    assert marks[0] == 0
    assert marks[-1] == pytest.approx(limit, abs=0.05)
    assert marks == sorted(marks)
    assert len(marks) <= 6


# Specs


@pytest.mark.parametrize("panel", Panel)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_chart_has_a_title_with_its_unit_and_a_description(panel: Panel, language: str):
    title = spec(panel, language=language)["title"]["text"]
    assert "(" in title
    assert texts(language).has(f"chart.{panel}.alt")


def test_the_axes_of_a_chart_are_fixed_so_new_data_does_not_change_its_spec():
    for layer in spec(Panel.GPU)["layer"]:
        assert layer["encoding"]["y"]["scale"]["domain"] == [0, 100.0]
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, 60.0]


def test_no_data_hides_in_the_spec_besides_the_ceiling():
    drawn = spec(Panel.CPU, limit=300.0, ceiling=200.0)
    assert "datasets" not in drawn
    inline = [layer["data"] for layer in drawn["layer"] if "values" in layer["data"]]
    assert {json.dumps(data["values"]) for data in inline} == {'[{"ceiling": 200.0}]'}


def test_two_runs_differ_in_colour_and_their_second_signal_is_dashed():
    lines = [
        layer
        for layer in spec(Panel.CPU, runs=2, limit=300.0)["layer"]
        if layer["mark"]["type"] == "line"
    ]
    assert len({line["mark"]["color"] for line in lines}) == 2
    assert [bool(line["mark"]["strokeDash"]) for line in lines] == [False, True, False, True]


def test_letters_are_larger_on_a_projector():
    small, large = (spec(Panel.GPU, projector=on) for on in (False, True))
    assert large["config"]["axis"]["labelFontSize"] > small["config"]["axis"]["labelFontSize"]
    assert large["height"] > small["height"]


def test_vietnamese_axes_write_decimals_with_a_comma():
    axes = [
        spec(Panel.VRAM, language=language)["layer"][0]["encoding"]["y"]["axis"]
        for language in LANGUAGES
    ]
    assert "'#', ','" in axes[0]["labelExpr"]
    assert axes[1]["labelExpr"] == "datum.label"


# Gauges


def test_a_gauge_says_the_mean_of_the_last_second_only():
    seen = [Reading(t, cpu_percent=v) for t, v in ((0.0, 10), (4.2, 100), (4.6, 200), (5.0, 300))]
    assert now(seen, "cpu_percent") == 200


def test_a_signal_that_is_absent_now_is_not_a_zero():
    assert now([Reading(0.0, gpu_percent=50), Reading(9.0)], "gpu_percent") is None


def test_memory_shows_the_whole_card_and_yours_as_two_figures():
    shown = gauge(Panel.VRAM, readings(5, gpu=True), Absences(), card=CARD, axes=AXES, say=EN)
    assert shown.value == "520 MiB"
    assert [line.text for line in shown.lines] == ["whole card, of 12 GiB", "yours: 0 MiB"]


def test_the_loaders_cpu_is_shown_apart_from_the_jobs():
    seen = [Reading(1.0, cpu_percent=150, children_cpu_percent=85)]
    shown = gauge(Panel.CPU, seen, Absences(), card=None, axes=AXES, say=EN)
    assert shown.value == "150%"
    assert shown.lines[1].text == "data loader: 85%"
    assert shown.share == 0.75  # of the ceiling of two threads


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unsupported_signal_is_told_in_words_with_its_reason(language: str):
    say = texts(language)
    unsupported = Absences({"power_watts": "absent.not_supported"})
    seen = [Reading(1.0, gpu_percent=20, cpu_percent=50)]
    shown = gauge(Panel.POWER, seen, unsupported, card=CARD, axes=AXES, say=say)
    assert shown.absent
    assert shown.share is None
    assert say("absent.value") in gauge_html(shown)
    assert say("absent.not_supported") in shown.lines[0].text


def test_a_gauge_waits_quietly_for_its_first_reading():
    shown = gauge(Panel.GPU, [], Absences(), card=CARD, axes=AXES, say=VI)
    assert shown.value == "…"
    assert not shown.absent


def test_a_name_cannot_bring_markup_into_a_gauge():
    shown = gauge(Panel.GPU, [], Absences(), card=CARD, axes=AXES, say=VI)
    forged = type(shown)("<script>", "<b>", None, ())
    assert "<script>" not in gauge_html(forged)
    assert "<b>" not in gauge_html(forged)


def test_reasons_are_said_once_for_all_the_signals_they_take_away():
    sentence = charts.absent_sentence(EN, ["gpu_percent", "energy", "power_watts"], NO_GPU)
    assert sentence.count(EN("absent.no_driver")) == 1
    assert EN("chart.signal.energy") in sentence


def test_a_panel_without_any_value_is_not_measured():
    assert not measured(Panel.GPU, [readings(5, gpu=False)])
    assert measured(Panel.CPU, [readings(5, gpu=False)])
