import numpy as np
import pytest
import torch

from core.labs import keeping
from core.labs.dcgan import Gan, train_step
from core.problems import Problem

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(3)
    gan = Gan(CPU)
    for _ in range(2):
        train_step(gan, torch.rand(8, 1, 28, 28) * 2 - 1)
    return gan


def refused(folder):
    with pytest.raises(Problem) as caught:
        keeping.load(folder, CPU)
    return caught.value.notice.key == "problem.nothing_trained"


def test_both_networks_come_back_bit_by_bit_and_ready_to_be_used(trained, tmp_path):
    keeping.save(trained, tmp_path / "not" / "yet" / "there")
    loaded = keeping.load(tmp_path / "not" / "yet" / "there", CPU)
    for ours, kept in (
        (trained.generator, loaded.generator),
        (trained.discriminator, loaded.discriminator),
    ):
        assert not kept.training
        for name, value in ours.state_dict().items():
            assert torch.equal(value, kept.state_dict()[name]), name


def test_a_second_save_replaces_the_first_and_leaves_no_other_file(trained, tmp_path):
    keeping.save(Gan(CPU), tmp_path)
    keeping.save(trained, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [keeping.FILE]
    weight = keeping.load(tmp_path, CPU).generator[0].weight
    assert torch.equal(weight, trained.generator[0].weight)


def test_a_save_that_breaks_off_leaves_what_was_there(trained, tmp_path, monkeypatch):
    keeping.save(trained, tmp_path)
    before = (tmp_path / keeping.FILE).read_bytes()

    def full(file, **_arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        keeping.save(Gan(CPU), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [keeping.FILE]
    assert (tmp_path / keeping.FILE).read_bytes() == before


def test_where_nothing_was_kept_the_student_is_told_to_train_first(tmp_path):
    assert refused(None)
    assert refused(tmp_path)
    assert refused(tmp_path / "nowhere")


def cut(path):
    path.write_bytes(path.read_bytes()[:10_000])


def words(path):
    path.write_text("not a file of arrays")


def empty(path):
    path.write_bytes(b"")


def objects(path):
    with path.open("wb") as file:
        np.savez(file, allow_pickle=True, **{"generator/0.weight": np.array([print], dtype=object)})


def one_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def other_shapes(path):
    with np.load(path) as arrays:
        reshaped = {name: arrays[name].reshape(1, -1) for name in arrays.files}
    with path.open("wb") as file:
        np.savez(file, **reshaped)


def strings(path):
    with np.load(path) as arrays:
        written = {name: arrays[name].astype(str) for name in arrays.files}
    with path.open("wb") as file:
        np.savez(file, **written)


def folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil", [cut, words, empty, objects, one_array, other_shapes, strings, folder]
)
def test_a_file_that_is_not_ours_is_refused_and_nothing_in_it_is_executed(spoil, trained, tmp_path):
    keeping.save(trained, tmp_path)
    spoil(tmp_path / keeping.FILE)
    assert refused(tmp_path)
