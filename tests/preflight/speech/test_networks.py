"""The networks have the released model's names, numbers, tables and loading rule."""

import pytest
import torch

from core.preflight.speech import positions
from core.preflight.speech.encoder import assembled, build_encoder, fingerprint, from_checkpoint
from core.preflight.speech.predictor import build_predictor

NUMBERS = {"encoder": 85_351_680, "predictor": 11_288_064}
BLOCK = [
    f"{part}.{kind}"
    for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    for kind in ("weight", "bias")
]


@pytest.fixture(scope="module")
def encoder():
    with torch.device("meta"):  # names and shapes alone
        return build_encoder()


@pytest.fixture(scope="module")
def predictor():
    with torch.device("meta"):
        return build_predictor()


def test_the_encoder_has_the_149_tensors_in_their_order(encoder):
    state = encoder.state_dict()

    assert list(state) == [
        "pos_embed",
        "patch_embed.proj.weight",
        "patch_embed.proj.bias",
        *(f"blocks.{i}.{name}" for i in range(12) for name in BLOCK),
        "norm.weight",
        "norm.bias",
    ]
    assert state["pos_embed"].shape == (1, 128, 768)
    assert state["patch_embed.proj.weight"].shape == (768, 1, 8, 32)
    assert state["blocks.11.attn.qkv.weight"].shape == (2304, 768)
    assert sum(tensor.numel() for tensor in state.values()) == NUMBERS["encoder"]
    assert {module.eps for module in encoder.modules() if hasattr(module, "eps")} == {1e-5}


def test_the_predictor_has_the_80_tensors_in_their_order(predictor):
    state = predictor.state_dict()

    assert list(state) == [
        "mask_token",
        "predictor_pos_embed",
        "predictor_embed.weight",
        "predictor_embed.bias",
        *(f"predictor_blocks.{i}.{name}" for i in range(6) for name in BLOCK),
        "predictor_norm.weight",
        "predictor_norm.bias",
        "predictor_proj.weight",
        "predictor_proj.bias",
    ]
    assert sum(tensor.numel() for tensor in state.values()) == NUMBERS["predictor"]


def test_positions_put_the_column_first_and_the_row_second():
    table = positions.table(768, 32, 4)[0]

    assert table[0].tolist() == [0.0] * 192 + [1.0] * 192 + [0.0] * 192 + [1.0] * 192
    known = [0.841471, 0.815251, 0.540302, 0.579108]
    assert table[1, [0, 1, 192, 193]].tolist() == pytest.approx(known, abs=1e-6)
    assert torch.equal(table[1, 384:], table[0, 384:])
    assert table[4, [384, 385, 576, 577]].tolist() == pytest.approx(known, abs=1e-6)
    assert table[127, [0, 192, 384, 576]].tolist() == pytest.approx(
        [0.141120, -0.989992, -0.404038, 0.914742], abs=1e-6
    )


@pytest.mark.parametrize(
    ("width", "furthest", "alike"), [(768, 1.99999, 0.8131), (384, 1.99980, 0.8107)]
)
def test_the_table_of_another_grid_fits_and_is_far_off(width, furthest, alike):
    ours, other = positions.table(width, 32, 4), positions.table(width, 16, 8)

    assert ours.shape == other.shape == (1, 128, width)
    assert float((ours - other).abs().max()) == pytest.approx(furthest, abs=2e-5)
    cosine = torch.nn.functional.cosine_similarity(ours, other, dim=-1).mean()
    assert float(cosine) == pytest.approx(alike, abs=1e-4)
    assert int(((ours - other).abs().amax(-1) > 1e-3).sum()) == 124


def small(patch=(16, 16)):
    return build_encoder(patch, seed=3, width=48, depth=2, heads=3)


def test_loading_resizes_the_patch_and_makes_the_table_anew():
    tensors = {f"encoder.{name}": tensor for name, tensor in small().state_dict().items()}

    loaded, missing, unexpected = from_checkpoint(tensors, "encoder.", heads=3)

    assert (missing, unexpected) == (["pos_embed"], [])
    assert torch.equal(loaded.pos_embed, positions.table(48, 32, 4))
    assert loaded.patch_embed.proj.weight.shape == (48, 1, 8, 32)
    by_hand = assembled(tensors, "encoder.")
    assert list(by_hand) == list(loaded.state_dict())
    assert fingerprint(by_hand) == fingerprint(loaded.state_dict())


def test_the_fingerprint_sees_one_bit_a_name_and_a_type():
    state = small().state_dict()
    changed = {name: tensor.clone() for name, tensor in state.items()}
    changed["norm.bias"][0] += 1e-7
    renamed = {("norm.shift" if name == "norm.bias" else name): t for name, t in state.items()}
    wider = state | {"norm.bias": state["norm.bias"].double()}

    prints = {fingerprint(each) for each in (state, changed, renamed, wider)}

    assert len(prints) == 4
    assert fingerprint(small().state_dict()) == fingerprint(state), "a seed makes it again"


@torch.inference_mode()
def test_kept_tokens_keep_their_places():
    encoder = small((8, 32)).eval()
    x = torch.randn(2, 1, 256, 128, generator=torch.Generator().manual_seed(0))
    order = torch.arange(127, -1, -1).expand(2, -1)

    # All tokens in another order: attention does not care, so each answer only moves along.
    assert torch.allclose(encoder(x, order).flip(1), encoder(x), atol=1e-5)


@torch.inference_mode()
def test_the_predictor_answers_for_the_targets_alone():
    predictor = build_predictor(seed=0, width=32, outer=48, depth=1, heads=2).eval()
    context = torch.arange(0, 64).expand(2, -1)
    targets = torch.arange(64, 128).expand(2, -1)
    seen = torch.randn(2, 64, 48, generator=torch.Generator().manual_seed(0))

    guessed = predictor(seen, context, targets)

    assert guessed.shape == (2, 64, 48)
    turned = predictor(seen, context, targets.flip(1)).flip(1)
    assert torch.allclose(guessed, turned, atol=1e-5)
