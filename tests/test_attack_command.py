"""`python -m core run attack` as a reader and a script use it."""

import json

import pytest

from core.__main__ import main
from core.activities import AttackSettings
from core.data import photos
from core.problems import Problem
from core.texts import LANGUAGES, texts


def told(capsys, *words):
    code = main(["run", "attack", "--device", "cpu", *words])
    return code, capsys.readouterr()


def test_the_json_result_has_the_promised_keys(capsysbinary, tmp_path):
    picture = tmp_path / "my photo.png"
    picture.write_bytes(photos.sample_png("coffee"))
    words = ["--target", "banana", "--epsilon", "8", "--steps", "3", "--image", str(picture)]
    assert main(["run", "attack", "--device", "cpu", "--json", *words]) == 0
    result = json.loads(capsysbinary.readouterr().out.splitlines()[-1])
    assert result["event"] == "result"
    assert result["before"][0][0] == "espresso"
    assert len(result["before"]) == len(result["after"]) == 5
    assert all(isinstance(name, str) and 0 <= belief <= 1 for name, belief in result["after"])
    assert result["linf_255"] == pytest.approx(3, abs=0.01)
    assert {"fooled", "confidence", "fooled_8bit", "model"} <= result.keys()
    assert [row["name"] for row in result["rows"]] == ["attack"]
    assert result["settings"]["epsilon"] == 8
    assert result["settings"]["target"] == 954


REFUSED = {
    "a class near others": (["--target", "tost"], "toaster (859)"),
    "an index too large": (["--target", "1000"], "999"),
    "no strength": (["--epsilon", "0"], "0.5"),
    "too strong": (["--epsilon", "17"], "16"),
    "no number": (["--epsilon", "much"], "much"),
    "no such picture": (["--picture", "dog"], "cat, coffee"),
    "no such file": (["--image", "/nowhere/photo.png"], "/nowhere/photo.png"),
    "no picture": (["--image", __file__], "PNG, JPEG"),
    "no such method": (["--method", "magic"], "fgsm"),
}


@pytest.mark.parametrize(("words", "hint"), REFUSED.values(), ids=REFUSED)
def test_bad_input_ends_with_exit_code_2_and_one_sentence(capsys, words, hint):
    code, said = told(capsys, "--lang", "en", *words)
    assert code == 2
    assert said.out == ""
    assert hint in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("epsilon", "stored"), [("2", 2.0), ("0.5", 0.5), ("0,5", 0.5), (16, 16.0)]
)
def test_strengths_are_read_with_decimals(epsilon, stored):
    assert AttackSettings.parse({"epsilon": epsilon}).epsilon == stored


@pytest.mark.parametrize("target", [-1, 1_000, 859.0, True, None, "toaster"])
def test_settings_hold_no_class_that_could_end_a_card(target):
    with pytest.raises(Problem):
        AttackSettings(target=target)


@pytest.mark.parametrize("language", LANGUAGES)
def test_help_names_the_option_for_a_picture_of_ones_own(capsys, language):
    assert main(["run", "attack", "--help", "--lang", language]) == 0
    assert "--image FILE" in (out := capsys.readouterr().out)
    assert texts(language)("cli.option.image") in out


def test_other_activities_take_no_picture(capsys):
    assert main(["run", "cpu-vs-gpu", "--image", "x.png"]) == 2
