"""The networks have the released model's names, numbers, tables and loading rule."""

import pytest
import torch
from torch.nn.functional import gelu, layer_norm, linear, softmax

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
    assert encoder.grid == (32, 4)
    trained = [name for name, each in encoder.named_parameters() if each.requires_grad]
    assert len(trained) == 148


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
    assert [tuple(state[name].shape) for name in ("mask_token", "predictor_pos_embed")] == [
        (1, 1, 384),
        (1, 128, 384),
    ]
    assert [
        tuple(state[f"predictor_{name}.weight"].shape)
        for name in ("embed", "blocks.5.attn.qkv", "blocks.5.mlp.fc1", "blocks.5.mlp.fc2", "proj")
    ] == [(384, 768), (1152, 384), (1536, 384), (384, 1536), (768, 384)]
    assert sum(tensor.numel() for tensor in state.values()) == NUMBERS["predictor"]
    assert {module.eps for module in predictor.modules() if hasattr(module, "eps")} == {1e-5}
    trained = [name for name, each in predictor.named_parameters() if each.requires_grad]
    assert len(trained) == 79


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
    twice = assembled(tensors, "encoder.")
    assert list(twice) == list(loaded.state_dict())
    assert fingerprint(twice) == fingerprint(loaded.state_dict())


def test_the_fingerprint_sees_one_bit_a_name_and_a_type():
    state = small().state_dict()
    changed = {name: tensor.clone() for name, tensor in state.items()}
    changed["norm.bias"][0] += 1e-7
    renamed = {("norm.shift" if name == "norm.bias" else name): t for name, t in state.items()}
    wider = state | {"norm.bias": state["norm.bias"].double()}

    prints = {fingerprint(each) for each in (state, changed, renamed, wider)}

    assert len(prints) == 4
    assert fingerprint(small().state_dict()) == fingerprint(state), "a seed makes it again"


def test_a_table_that_no_checkpoint_has_is_no_checkpoint():
    with pytest.raises(ValueError, match="target_encoder"):
        from_checkpoint({"encoder.norm.weight": torch.ones(48)}, "target_encoder.")


def by_hand(state, blocks: str, x, heads: int):
    """Pre-norm blocks in plain sums, as the specification has them."""
    width = x.shape[-1]
    depth = len({name.split(".")[1] for name in state if name.startswith(blocks)})
    for i in range(depth):
        p = {n.removeprefix(f"{blocks}.{i}."): t for n, t in state.items() if f"{blocks}.{i}." in n}
        y = layer_norm(x, (width,), p["norm1.weight"], p["norm1.bias"], eps=1e-5)
        q, k, v = (
            part.unflatten(-1, (heads, -1)).transpose(1, 2)
            for part in linear(y, p["attn.qkv.weight"], p["attn.qkv.bias"]).chunk(3, dim=-1)
        )
        weights = softmax(q @ k.transpose(-2, -1) / (width // heads) ** 0.5, dim=-1)
        y = (weights @ v).transpose(1, 2).flatten(2)
        x = x + linear(y, p["attn.proj.weight"], p["attn.proj.bias"])
        y = layer_norm(x, (width,), p["norm2.weight"], p["norm2.bias"], eps=1e-5)
        y = gelu(linear(y, p["mlp.fc1.weight"], p["mlp.fc1.bias"]))
        x = x + linear(y, p["mlp.fc2.weight"], p["mlp.fc2.bias"])
    return x


def some_masks(*sizes: int):
    generator = torch.Generator().manual_seed(1)
    orders = [torch.stack([torch.randperm(128, generator=generator) for _ in "ab"]) for _ in sizes]
    return [order[:, :size] for order, size in zip(orders, sizes, strict=True)]


@torch.inference_mode()
def test_the_encoder_is_the_one_of_the_formula_whole_and_masked():
    encoder = small((8, 32)).eval()
    state = encoder.state_dict()
    x = torch.randn(2, 1, 256, 128, generator=torch.Generator().manual_seed(0))
    patches = x.reshape(2, 32, 8, 4, 32).transpose(2, 3).reshape(2, 128, 8 * 32)
    weight, bias = state["patch_embed.proj.weight"].flatten(1), state["patch_embed.proj.bias"]
    tokens = linear(patches, weight, bias) + state["pos_embed"]
    (kept,) = some_masks(50)

    for index, answer in ((None, encoder(x)), (kept, encoder(x, kept))):
        looked_at = tokens if index is None else tokens[torch.arange(2)[:, None], index]
        wanted = by_hand(state, "blocks", looked_at, heads=3)
        wanted = layer_norm(wanted, (48,), state["norm.weight"], state["norm.bias"], eps=1e-5)
        assert torch.allclose(answer, wanted, atol=2e-6)


@torch.inference_mode()
def test_several_masks_come_one_after_the_other():
    encoder = small((8, 32)).eval()
    predictor = build_predictor(seed=0, width=32, outer=48, depth=1, heads=2).eval()
    x = torch.randn(2, 1, 256, 128, generator=torch.Generator().manual_seed(0))
    contexts, targets = some_masks(50, 50), some_masks(30, 30, 30)

    seen = encoder(x, contexts)
    guessed = predictor(seen, contexts, targets)

    assert guessed.shape == (3 * 2 * 2, 30, 48)
    for j, target in enumerate(targets):
        for m, context in enumerate(contexts):
            alone = predictor(encoder(x, context), context, target)
            block = 2 * (j * len(contexts) + m)
            assert torch.allclose(guessed[block : block + 2], alone, atol=1e-5)


@torch.inference_mode()
def test_the_predictor_is_the_one_of_the_formula():
    predictor = build_predictor(seed=0, width=32, outer=48, depth=2, heads=2).eval()
    state = predictor.state_dict()
    context, targets = some_masks(40, 60)
    seen = torch.randn(2, 40, 48, generator=torch.Generator().manual_seed(0))
    table = state["predictor_pos_embed"][0]

    known = linear(seen, state["predictor_embed.weight"], state["predictor_embed.bias"])
    tokens = torch.cat((known + table[context], state["mask_token"] + table[targets]), dim=1)
    answer = by_hand(state, "predictor_blocks", tokens, heads=2)[:, 40:]
    norm = state["predictor_norm.weight"], state["predictor_norm.bias"]
    answer = layer_norm(answer, (32,), *norm, eps=1e-5)
    wanted = linear(answer, state["predictor_proj.weight"], state["predictor_proj.bias"])

    assert torch.allclose(predictor(seen, context, targets), wanted, atol=2e-6)


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
