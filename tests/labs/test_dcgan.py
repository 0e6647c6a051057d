import pytest
import torch

from core.labs.dcgan import Discriminator, Gan, Generator, parameter_count, train_step
from tests.labs.plain import PlainLab

CPU = torch.device("cpu")


def test_the_networks_have_exactly_as_many_parameters_as_the_lab_says():
    assert parameter_count(Generator()) == 534_081
    assert parameter_count(Discriminator()) == 138_817


def test_the_generator_turns_noise_into_pictures_between_minus_one_and_one():
    pictures = Generator()(torch.randn(8, 64, 1, 1))
    assert pictures.shape == (8, 1, 28, 28)
    assert pictures.min() >= -1
    assert pictures.max() <= 1


def test_the_discriminator_gives_one_raw_score_a_picture():
    scores = Discriminator()(torch.zeros(8, 1, 28, 28))
    assert scores.shape == (8, 1)


def test_leaving_out_unused_gradients_changes_no_bit_of_twenty_steps():
    batches = torch.rand(20, 16, 1, 28, 28) * 2 - 1
    torch.manual_seed(7)
    lab = PlainLab()
    expected = [lab.step(real) for real in batches]
    torch.manual_seed(7)
    gan = Gan(CPU)
    losses = [tuple(loss.item() for loss in train_step(gan, real)) for real in batches]

    assert losses == expected
    for ours, plain in ((gan.generator, lab.g), (gan.discriminator, lab.d)):
        for name, value in ours.state_dict().items():
            assert torch.equal(value, plain.state_dict()[name]), name


def test_one_seed_gives_the_same_start_and_another_seed_another():
    def first_weights(seed):
        torch.manual_seed(seed)
        return Gan(CPU).generator[0].weight

    assert torch.equal(first_weights(3), first_weights(3))
    assert not torch.equal(first_weights(3), first_weights(4))


@pytest.mark.gpu
def test_the_gpu_computes_the_same_first_losses_as_the_cpu():
    noise, real = torch.randn(128, 64, 1, 1), torch.rand(128, 1, 28, 28) * 2 - 1
    losses = []
    for device in (CPU, torch.device("cuda:0")):
        torch.manual_seed(0)
        gan = Gan(device)
        loss_d, loss_g = train_step(gan, real.to(device), noise=noise.to(device))
        losses.append((loss_d.item(), loss_g.item()))
    # A GPU multiplies with 10 bits behind the point (TF32) where a CPU keeps 23.
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
