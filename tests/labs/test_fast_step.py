import pytest
import torch

from core.labs.dcgan import NOISE, Gan, train_step
from core.labs.fast_step import LeanStep

CPU = torch.device("cpu")


def twins(dtype):
    """Two equal sets of networks with their optimisers."""
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        gan = Gan(CPU)
        gan.generator.to(dtype)
        gan.discriminator.to(dtype)
        made.append(gan)
    return made


def state(gan):
    return {
        f"{name}.{key}": value
        for name, network in (("g", gan.generator), ("d", gan.discriminator))
        for key, value in network.state_dict().items()
        if "num_batches" not in key
    }


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double_precision")
def test_one_pass_over_real_and_fake_computes_what_two_passes_do():
    plain, lean = twins(torch.float64)
    step = LeanStep(lean, dtype=torch.float64, compiled=False)
    for _ in range(3):
        real = torch.rand(8, 1, 28, 28) * 2 - 1
        noise = torch.randn(8, NOISE)
        expected = train_step(plain, real, noise=noise.view(8, NOISE, 1, 1))
        torch.testing.assert_close(step(real, noise), expected)
        for key, value in state(plain).items():
            # A bias before BatchNorm has no effect: its gradient is rounding, which Adam magnifies.
            if key not in ("g.0.bias", "g.3.bias", "d.2.bias") and "running_mean" not in key:
                torch.testing.assert_close(state(lean)[key], value, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("double_precision")
def test_twenty_steps_lose_as_the_plain_step_does():
    plain, lean = twins(torch.float64)
    step = LeanStep(lean, dtype=torch.float64, compiled=False)
    for _ in range(20):
        real = torch.rand(16, 1, 28, 28) * 2 - 1
        noise = torch.randn(16, NOISE)
        expected = train_step(plain, real, noise=noise.view(16, NOISE, 1, 1))
        torch.testing.assert_close(step(real, noise), expected, rtol=1e-4, atol=1e-6)


def test_products_in_bfloat16_stay_near_the_plain_step():
    plain, lean = twins(torch.float32)
    step = LeanStep(lean, dtype=torch.bfloat16, compiled=False)
    real, noise = torch.rand(32, 1, 28, 28) * 2 - 1, torch.randn(32, NOISE)
    expected = train_step(plain, real, noise=noise.view(32, NOISE, 1, 1))
    torch.testing.assert_close(step(real, noise), expected, rtol=0.02, atol=0.02)
    assert all(parameter.dtype == torch.float32 for parameter in lean.generator.parameters())


def test_a_step_leaves_the_networks_able_to_learn():
    _, lean = twins(torch.float32)
    LeanStep(lean, dtype=torch.float32, compiled=False)(
        torch.rand(4, 1, 28, 28), torch.randn(4, NOISE)
    )
    assert all(parameter.requires_grad for parameter in lean.discriminator.parameters())


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler does what PyTorch warns of
def test_the_compiled_step_agrees_with_the_plain_one_on_a_gpu():
    device = torch.device("cuda:0")
    gans = []
    for _ in range(2):
        torch.manual_seed(0)
        gans.append(Gan(device))
    plain, lean = gans
    step = LeanStep(lean, dtype=torch.float32, compiled=True)
    for _ in range(5):
        real = torch.rand(128, 1, 28, 28, device=device) * 2 - 1
        noise = torch.randn(128, NOISE, device=device)
        expected = train_step(plain, real, noise=noise.view(128, NOISE, 1, 1))
        # Products of a few bits less (TF32) on either side.
        torch.testing.assert_close(step(real, noise), expected, rtol=0.02, atol=0.02)
