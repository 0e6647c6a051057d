import msgspec
import pytest

from core.activities.make_images import PreparePicturesResult, PreparePicturesSettings
from core.events import Result
from core.labs import prepare_pictures
from core.labs.image_pipeline import held, owner
from tests.labs.picture_lab import CPU, lab_of


def prepared(context):
    *_, result = prepare_pictures.run(PreparePicturesSettings(), context)
    assert isinstance(result, Result)
    return msgspec.convert(result.values, PreparePicturesResult)


def test_before_the_class_the_model_comes_into_memory_and_what_is_not_done_has_a_reason(model):
    with lab_of(model) as context:
        found = prepared(context)
        assert owner().holds(model, CPU)

    assert found.not_compiled == "image_speed.needs_gpu"


@pytest.mark.gpu
@pytest.mark.timeout(300)
def test_on_a_card_everybodys_pictures_come_from_compiled_blocks_afterwards(model):
    import torch

    cuda = torch.device("cuda:0")
    with lab_of(model, device="cuda:0") as context:
        plain = held(model, cuda).own_blocks()
        found = prepared(context)
        assert found.not_compiled is None
        assert held(model, cuda).predict is not plain[0]
