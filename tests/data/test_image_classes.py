import pytest
from torchvision.models._meta import _IMAGENET_CATEGORIES as TORCHVISIONS

from core.data.image_classes import class_named, image_classes, label, targets
from core.problems import Problem
from core.texts import LANGUAGES, texts


def test_the_english_names_are_those_of_torchvisions_weights_in_their_order():
    assert [one.english for one in image_classes()] == TORCHVISIONS
    assert [one.index for one in image_classes()] == list(range(1_000))


def test_common_things_have_a_vietnamese_name_of_their_own():
    named = [one.vietnamese for one in image_classes() if one.vietnamese]
    assert len(named) >= 150
    assert len(set(named)) == len(named)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("toaster", 859),
        (" Toaster ", 859),
        ("859", 859),
        ("máy nướng bánh mì", 859),
        ("may nuong banh mi", 859),
        ("đàn vĩ cầm", 889),
        ("chuối", 954),
        ("cardigan", 474),
        ("Cardigan", 264),
        ("0", 0),
    ],
)
def test_a_class_is_found_by_index_or_by_name_in_either_language(text, index):
    assert class_named(text) == index


@pytest.mark.parametrize(
    ("text", "near"),
    [("tost", "toaster (859)"), ("banan", "banana (954)"), ("cat", "tiger cat (282)")],
)
def test_an_unknown_class_is_answered_with_the_near_ones(text, near):
    with pytest.raises(Problem) as caught:
        class_named(text)
    assert caught.value.notice.key == "problem.class_unknown"
    assert near in caught.value.notice.facts["near"]


@pytest.mark.parametrize("text", ["xyzzyq", "", "🎨", "-1", "1e3"])
def test_what_is_like_no_class_is_answered_with_the_labs_own_examples(text):
    with pytest.raises(Problem) as caught:
        class_named(text)
    assert "toaster" in caught.value.notice.facts["near"]


def test_a_name_that_differs_in_capitals_alone_has_to_be_chosen_by_index():
    with pytest.raises(Problem) as caught:
        class_named("CARDIGAN")
    assert caught.value.notice.key == "problem.class_ambiguous"
    assert caught.value.notice.facts["near"] == "Cardigan (264), cardigan (474)"


@pytest.mark.parametrize("text", ["1000", "99999999999999999999"])
def test_an_index_out_of_range_is_refused_in_a_sentence(text):
    with pytest.raises(Problem) as caught:
        class_named(text)
    for language in LANGUAGES:
        assert "999" in texts(language).notice(caught.value.notice)


def test_a_list_of_targets_holds_every_class_once_and_vietnamese_names_first():
    for language in LANGUAGES:
        assert sorted(one.index for one in targets(language)) == list(range(1_000))
    assert targets("vi")[0].vietnamese
    assert not targets("vi")[-1].vietnamese
    assert label(954, "vi") == "quả chuối (banana)"
    assert label(954, "en") == "banana"
