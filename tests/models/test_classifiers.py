import io
import struct

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from torchvision.models import resnet18

from core.activities.attack import AUTO, LITE_0, LITE_1, RESNET_18
from core.data import photos
from core.labs.attack_methods import slope_toward
from core.labs.classifying import beliefs, tensor, top_guesses
from core.models import classifiers
from core.models.classifier_files import (
    RESNET_FILE,
    classifier_named,
    classifiers_here,
    weights_file,
)
from core.problems import Problem
from core.settings import LabSettings

CPU = torch.device("cpu")


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A lab without ResNet-18, whatever lies in the cache of whoever runs the tests."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return LabSettings(models_dir=tmp_path / "models")


def photo(name):
    return tensor(photos.fitted(photos.pixels_of(name, None)), CPU)


def test_efficientnet_lite0_sees_the_cat_as_an_egyptian_cat(lab):
    guesses, classes = top_guesses(beliefs(classifiers.load(AUTO, CPU, lab), photo("cat"))[0])
    assert classes[0] == 285
    assert guesses[0] == ("Egyptian cat", pytest.approx(0.79, abs=0.01))
    assert len(guesses) == 5
    assert [belief for _, belief in guesses] == sorted((b for _, b in guesses), reverse=True)


@pytest.mark.parametrize("name", [LITE_0, LITE_1])
def test_every_sample_is_named_rightly_by_the_networks_that_are_always_here(lab, name):
    classifier = classifiers.load(name, CPU, lab)
    for sample in photos.SAMPLES.values():
        assert int(beliefs(classifier, photo(sample.name))[0].argmax()) in sample.classes


@pytest.mark.parametrize("name", [LITE_0, LITE_1])
def test_the_network_answers_as_the_package_that_the_weights_were_made_for(lab, name):
    ours = classifiers.load(name, CPU, lab)
    theirs = EfficientNet.from_name(name, image_size=224).eval()
    theirs.load_state_dict(torch.load(weights_file(name, lab), weights_only=True))
    pictures = torch.cat([photo("cat"), photo("coffee")])
    with torch.inference_mode():
        assert torch.allclose(ours(pictures), theirs((pictures * 255 - 127) / 128), atol=2e-3)


def test_a_network_is_frozen_and_loaded_once(lab):
    classifier = classifiers.load(LITE_0, CPU, lab)
    assert classifier is classifiers.load(LITE_0, CPU, lab)
    assert not classifier.training
    assert not any(parameter.requires_grad for parameter in classifier.parameters())


def test_resnet18_is_taken_when_its_file_is_here_and_answers_as_torchvisions(lab):
    torch.manual_seed(0)
    theirs = resnet18().eval()
    for module in theirs.modules():  # as after training: fresh ones would hide a wrong fold
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    lab.models.mkdir(parents=True)
    torch.save(theirs.state_dict(), lab.models / RESNET_FILE)
    assert classifiers_here(lab) == (RESNET_18, LITE_0, LITE_1)

    ours = classifiers.load(AUTO, CPU, lab)
    assert ours.name == RESNET_18
    mean = torch.tensor((0.485, 0.456, 0.406)).view(1, 3, 1, 1)
    spread = torch.tensor((0.229, 0.224, 0.225)).view(1, 3, 1, 1)
    with torch.inference_mode():
        expected = theirs((photo("cat") - mean) / spread)
        assert torch.allclose(ours(photo("cat")), expected, rtol=1e-3, atol=1e-3)


def test_torchvisions_own_cache_is_looked_at_too(lab, tmp_path):
    cached = tmp_path / "torch" / "hub" / "checkpoints" / RESNET_FILE
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert weights_file(RESNET_18, lab) == cached


def test_without_its_file_resnet18_is_refused_and_nothing_is_fetched(lab):
    assert classifier_named(AUTO, lab).name == LITE_0
    with pytest.raises(Problem) as caught:
        classifiers.load(RESNET_18, CPU, lab)
    assert caught.value.notice.key == "problem.classifier_missing"
    assert LITE_0 in caught.value.notice.facts["near"]


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", b"no weights", struct.pack("<Q", 2**40), saved({"fc.weight": torch.zeros(3)}), saved(7)],
    ids=["empty", "text", "numbers", "another network", "no network"],
)
def test_a_damaged_file_is_told_in_a_sentence(lab, data):
    lab.models.mkdir(parents=True)
    (lab.models / RESNET_FILE).write_bytes(data)
    with pytest.raises(Problem) as caught:
        classifiers.load(RESNET_18, CPU, lab)
    assert caught.value.notice.key == "problem.classifier_damaged"


@pytest.mark.gpu
def test_a_card_answers_as_the_processor_does(lab):
    picture = photo("cat")
    on_cpu = beliefs(classifiers.load(LITE_0, CPU, lab), picture)[0]
    card = torch.device("cuda:0")
    on_card = beliefs(classifiers.load(LITE_0, card, lab), picture.to(card))[0]
    assert np.allclose(on_cpu.numpy(), on_card.numpy(), atol=0.01)  # TF32 rounds more


@pytest.mark.gpu
def test_captured_passes_slope_as_the_plain_ones_do_at_every_size(lab):
    card = torch.device("cuda:0")
    network = classifiers.load(LITE_0, card, lab)
    for count in (1, 3, 1):
        pictures = photo("cat").to(card).expand(count, -1, -1, -1) * torch.rand(count, 1, 1, 1).to(
            card
        )
        targets = torch.arange(count, device=card)
        captured = network.captured(pictures)
        assert captured is network.captured(pictures)
        slope, logits = slope_toward(network, pictures, targets)
        same_slope, same_logits = slope_toward(captured, pictures, targets)
        assert torch.allclose(logits, same_logits, atol=0.05)  # TF32 rounds more
        assert torch.cosine_similarity(slope.flatten(), same_slope.flatten(), dim=0) > 0.99


def test_on_a_processor_there_is_nothing_to_capture(lab):
    network = classifiers.load(LITE_0, CPU, lab)
    assert network.captured(photo("cat")) is network
