"""What an activity may be asked to do: its limits hold, whoever builds the settings."""

import copy
from typing import Annotated

import msgspec
import pytest

from core.activities import (
    ACTIVITIES,
    ActivitySettings,
    CpuVsGpuSettings,
    Limit,
    activity_named,
)
from core.activities.base import DecimalLimit, OneOf, TextLimit
from core.problems import Problem
from core.texts import LANGUAGES, texts

BUILDERS = {
    "constructor": lambda values: CpuVsGpuSettings(**values),
    "parse": CpuVsGpuSettings.parse,
    "msgspec": lambda values: msgspec.convert(values, CpuVsGpuSettings),
    "json": lambda values: msgspec.json.decode(msgspec.json.encode(values), type=CpuVsGpuSettings),
    "replace": lambda values: msgspec.structs.replace(CpuVsGpuSettings(), **values),
}


class Example(ActivitySettings, frozen=True):
    small: Annotated[int, Limit(1, 3)] = 2
    large: Annotated[int, Limit(100, 300, step=50)] = 200
    words: Annotated[str, TextLimit(10)] = "a cat"
    model: Annotated[str, OneOf(("little", "big"))] = "little"


class Other(str):
    """Text of a kind of its own, as a parser or a widget may hand over."""


@pytest.mark.parametrize("activity", ACTIVITIES.values(), ids=lambda activity: activity.id)
def test_every_default_lies_within_its_limits(activity):
    settings = activity.settings()

    for name, rule in settings.rules().items():
        rule.check(name, getattr(settings, name))  # raises where it does not hold


@pytest.mark.parametrize("activity", ACTIVITIES.values(), ids=lambda activity: activity.id)
def test_every_setting_has_a_rule_and_a_limit_is_reached_by_its_slider(activity):
    assert set(activity.settings.rules()) == set(activity.settings.__struct_fields__)
    for name, limit in activity.settings.limits().items():
        assert (limit.high - limit.low) % limit.step == 0, name


def test_limits_are_listed_in_the_order_of_declaration():
    assert Example.limits() == {"small": Limit(1, 3), "large": Limit(100, 300, step=50)}


def test_rules_are_the_limits_and_those_of_text_and_choice():
    assert Example.rules() == {
        "small": Limit(1, 3),
        "large": Limit(100, 300, step=50),
        "words": TextLimit(10),
        "model": OneOf(("little", "big")),
    }


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("steps", [20, 200])
def test_the_ends_of_the_range_are_allowed(build, steps):
    assert build({"steps": steps}).steps == steps


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("steps", [19, 201, 0, -1, 10**30])
def test_out_of_range_cannot_be_built(build, steps):
    # msgspec wraps what a constructor raises, and cannot read whole numbers beyond 64 bits.
    with pytest.raises((Problem, msgspec.ValidationError)):
        build({"steps": steps})


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("steps", [100.5, None, "many", [100], True])
def test_what_is_no_whole_number_cannot_be_built(build, steps):
    with pytest.raises((Problem, msgspec.ValidationError)):
        build({"steps": steps})


@pytest.mark.parametrize("build", [BUILDERS["parse"], BUILDERS["msgspec"], BUILDERS["json"]])
def test_an_unknown_setting_cannot_be_built(build):
    with pytest.raises((Problem, msgspec.ValidationError)):
        build({"step": 100})


def test_built_settings_cannot_be_changed():
    settings = copy.copy(CpuVsGpuSettings())

    with pytest.raises(AttributeError):
        settings.steps = 10_000


@pytest.mark.parametrize("text", ["100", " 100 ", 100])
def test_whole_numbers_are_read_from_text(text):
    assert CpuVsGpuSettings.parse({"steps": text}).steps == 100


def test_an_out_of_range_setting_is_told_with_its_range():
    with pytest.raises(Problem) as caught:
        CpuVsGpuSettings.parse({"steps": "5"})

    assert caught.value.notice.key == "problem.setting_range"
    assert caught.value.notice.facts == {"setting": "steps", "value": 5, "low": 20, "high": 200}


def test_a_setting_of_another_kind_is_told():
    with pytest.raises(Problem) as caught:
        CpuVsGpuSettings.parse({"steps": "1e2"})

    assert caught.value.notice.key == "problem.setting_type"
    assert caught.value.notice.facts == {"setting": "steps", "value": "1e2"}


REFUSED = {
    "small": ["", "two", 1.5, 2.0, None, [2], {}, b"2", float("nan"), True, 0, 4, "4"],
    "words": ["", " \n\t", None, 7, 1.5, True, b"a cat", ["a cat"], {}, "x" * 11, "a \udcff cat"],
    "model": ["", "Big", "little, big", "littl", None, 0, True, b"big", ["big"], {}, ("big",)],
}
CASES = [(name, value) for name, values in REFUSED.items() for value in values]


@pytest.mark.parametrize("build", [Example.parse, lambda values: Example(**values)])
@pytest.mark.parametrize(("name", "value"), CASES, ids=repr)
def test_each_rule_refuses_what_it_should_whatever_its_type(name, value, build):
    with pytest.raises(Problem) as caught:
        build({name: value})

    for language in LANGUAGES:
        assert name in texts(language).notice(caught.value.notice)


@pytest.mark.parametrize("value", ["x" * 10, "một áo đỏ", "红色运动鞋", "🎨🎨🎨", Other("a cat")])
def test_text_of_any_script_up_to_the_limit_is_allowed(value):
    assert Example.parse({"words": value}).words == value


def test_text_is_put_on_one_line_before_it_is_measured():
    assert Example.parse({"words": "  a  red \n cat "}).words == "a red cat"


@pytest.mark.parametrize("value", ["big", " big "])
def test_a_name_of_the_list_is_allowed(value):
    assert Example.parse({"model": value}).model == "big"


def test_a_wrong_name_is_told_with_those_that_there_are():
    with pytest.raises(Problem) as caught:
        Example.parse({"model": "huge"})

    assert caught.value.notice.facts == {
        "setting": "model",
        "value": "huge",
        "names": "little, big",
    }


STRENGTH = DecimalLimit(0.5, 16.0, 0.5)


@pytest.mark.parametrize("value", [2, 2.5, "2.5", "2,5", " 16 ", 0.5])
def test_a_number_with_decimals_is_read_with_point_or_comma(value):
    number = STRENGTH.parsed("strength", value)
    STRENGTH.check("strength", number)
    assert number == float(str(value).replace(",", "."))


@pytest.mark.parametrize(
    "value", ["", "much", None, [], {}, True, float("nan"), float("inf"), "nan", 0, 0.49, "17", -1]
)
def test_what_is_no_number_of_the_range_is_refused(value):
    with pytest.raises(Problem):
        STRENGTH.check("strength", STRENGTH.parsed("strength", value))
    with pytest.raises(Problem):
        STRENGTH.check("strength", value)


def test_text_and_choice_hold_on_the_way_through_a_pipe():
    for wrong in ({"words": ""}, {"model": "huge"}):
        with pytest.raises((Problem, msgspec.ValidationError)):
            msgspec.json.decode(msgspec.json.encode(wrong), type=Example)


@pytest.mark.parametrize(("name", "near"), [("step", "steps"), ("xyz", "steps, seed")])
def test_an_unknown_setting_is_answered_with_the_near_ones(name, near):
    with pytest.raises(Problem) as caught:
        CpuVsGpuSettings.parse({name: 1})

    assert caught.value.notice.key == "problem.setting_unknown"
    assert caught.value.notice.facts == {"setting": name, "near": near}


def test_an_activity_is_found_by_its_name():
    assert activity_named("cpu-vs-gpu").settings is CpuVsGpuSettings


@pytest.mark.parametrize("name", ["cpu-vs-gp", "cpu_vs_gpu", "CPU"])
def test_an_unknown_activity_is_answered_with_the_near_ones(name):
    with pytest.raises(Problem) as caught:
        activity_named(name)

    assert caught.value.notice.key == "problem.activity_unknown"
    assert caught.value.notice.facts["activity"] == name
    assert "cpu-vs-gpu" in caught.value.notice.facts["near"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("values", [{"steps": 1}, {"steps": "?"}, {"step": 1}], ids=str)
def test_each_refusal_is_a_sentence_that_names_the_setting(language, values):
    with pytest.raises(Problem) as caught:
        CpuVsGpuSettings.parse(values)

    assert next(iter(values)) in texts(language).notice(caught.value.notice)
