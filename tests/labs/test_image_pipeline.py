import dataclasses
import itertools
import weakref

import numpy as np
import pytest
import torch
from diffusers import AutoPipelineForText2Image, EulerDiscreteScheduler

from core.labs.image_pipeline import TOLERANCE, ImagePipeline, Order, held, owner
from core.models.in_memory import models_in_memory
from core.models.stored_blocks import stored_blocks
from core.problems import Problem
from tests.labs.picture_lab import CPU, furthest, tiny_model

PROMPTS = [f"{thing} on {ground}" for thing in ("a red bag", "áo đỏ") for ground in ("blue", "nền")]
ORDERS = [Order(PROMPTS[number % 4], seed=number) for number in range(20)]


@pytest.fixture(scope="module")
def pipeline(model):
    return ImagePipeline.load(model, CPU)


def test_twenty_pictures_at_once_equal_their_single_ones(pipeline):
    together = pipeline.draw(ORDERS)

    for order, picture in zip(ORDERS, together, strict=True):
        (alone,) = pipeline.draw([order])
        assert furthest(alone, picture) <= TOLERANCE["cpu"]
    different = [furthest(one, other) for one, other in itertools.pairwise(together)]
    assert min(different) > 20, "which is more than rounding: each picture is another"


def test_a_picture_does_not_depend_on_its_place_in_the_batch(pipeline):
    forward, backward = pipeline.draw(ORDERS[:5]), pipeline.draw(ORDERS[4::-1])

    assert furthest(forward, backward[::-1]) <= TOLERANCE["cpu"]


def test_a_picture_leaves_pytorchs_random_numbers_alone(pipeline):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    pipeline.draw(ORDERS[:1])

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_pictures_are_those_of_diffusers_own_pipeline(model, prediction, steps):
    stock = AutoPipelineForText2Image.from_pretrained(
        model.folder, dtype=torch.float32, low_cpu_mem_usage=False
    )
    config = {**stock.scheduler.config, "prediction_type": prediction}
    stock.scheduler = EulerDiscreteScheduler.from_config(config)
    stock.set_progress_bar_config(disable=True)
    own = ImagePipeline(stock, model, CPU)
    orders = ORDERS[:3]

    theirs = stock(
        [order.prompt for order in orders],
        latents=own.noise([order.seed for order in orders]),
        num_inference_steps=steps,
        guidance_scale=0.0,
        output_type="np",
    ).images
    assert furthest(own.draw(orders, steps), (theirs * 255).round().astype(np.uint8)) <= 1


def test_noise_is_that_of_the_seed_on_the_cpu(pipeline):
    first, again, other = pipeline.noise([7, 7, 8])

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    expected = torch.randn(4, 16, 16, generator=torch.Generator().manual_seed(7))
    assert torch.equal(first, expected)


def test_pictures_have_the_models_size(pipeline, model):
    assert pipeline.draw(ORDERS[:2]).shape == (2, model.pixels, model.pixels, 3)


def test_a_sentence_that_is_too_long_is_cut_and_drawn(pipeline):
    assert pipeline.ids(["áo " * 100]).shape == (1, pipeline.seats)
    pipeline.draw([Order("áo " * 100, 0)])


def test_blocks_are_counted_on_the_loaded_model_and_agree_with_its_files(pipeline, model):
    loaded, stored = pipeline.blocks(), stored_blocks(model.folder)

    assert [block.name for block in loaded] == [block.name for block in stored]
    assert [block.parameters for block in loaded] == [block.parameters for block in stored]
    assert {block.dtype for block in loaded if block.parameters} == {"float32"}
    unet = next(block for block in loaded if block.name == "unet")
    assert unet.kind == "UNet2DConditionModel"
    assert unet.mib == pytest.approx(unet.parameters * 4 / 2**20)


def test_one_copy_is_held_however_often_it_is_asked_for(model):
    first = held(model, CPU)
    assert held(model, CPU) is first
    assert owner().holds(model, CPU)
    assert model.id in models_in_memory().names
    models_in_memory().drop_all()  # as a worker does that is asked for its memory
    assert not owner().holds(model, CPU)
    assert model.id not in models_in_memory().names


def test_another_model_takes_the_place_of_the_first_before_it_is_loaded(model, monkeypatch):
    first = weakref.ref(held(model, CPU).unet)
    load, alive = ImagePipeline.load, []

    def watched(model, device):
        alive.append(first() is not None)
        return load(model, device)

    monkeypatch.setattr(ImagePipeline, "load", watched)
    other = dataclasses.replace(model, id="another")
    assert held(other, CPU).model is other
    assert alive == [False]


def test_a_folder_that_is_no_model_is_told(model, tmp_path):
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    with pytest.raises(Problem) as caught:
        ImagePipeline.load(dataclasses.replace(model, folder=tmp_path), CPU)
    assert caught.value.notice.key == "problem.image_model_broken"


def test_weights_that_end_too_early_are_told(model, tmp_path):
    damaged = tiny_model(tmp_path / "damaged")
    file = next((damaged.folder / "unet").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(Problem) as caught:
        ImagePipeline.load(damaged, CPU)
    assert caught.value.notice.key == "problem.image_model_broken"


@pytest.mark.gpu
def test_a_graph_draws_what_the_plain_way_draws_at_every_size(model):
    pipeline = ImagePipeline.load(model, torch.device("cuda:0"))
    assert {block.dtype for block in pipeline.blocks() if block.parameters} == {"float16"}
    for count in (1, 2, 3, 8, 20):
        orders = ORDERS[:count]
        pipeline.graphs = False
        plain = pipeline.draw(orders)
        pipeline.graphs = True
        pipeline.draw(ORDERS[-count:])  # captures; what was drawn before must not shine through
        assert furthest(pipeline.draw(orders), plain) <= TOLERANCE["cuda"]


@pytest.mark.gpu
def test_half_precision_on_a_card_stays_within_the_stated_tolerance(model):
    pipeline = ImagePipeline.load(model, torch.device("cuda:0"))
    together = pipeline.draw(ORDERS)
    for order, picture in zip(ORDERS, together, strict=True):
        (alone,) = pipeline.draw([order])
        assert furthest(alone, picture) <= TOLERANCE["cuda"]
