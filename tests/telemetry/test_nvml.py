"""What the driver says, and what is left when it says nothing."""

from __future__ import annotations

import sys

import pytest

from core.telemetry import nvml as lab_nvml
from core.telemetry.nvml import (
    Card,
    CardReading,
    GpuAbsent,
    find_device,
    list_gpus,
    same_uuid,
    vram_holders,
)
from tests.telemetry import fake_nvml
from tests.telemetry.fake_nvml import (
    GPU_IS_LOST,
    NOT_SUPPORTED,
    OTHER_UUID,
    SLICE_UUID,
    UNKNOWN,
    UUID,
    FakeCard,
    FakeNvml,
    NvmlFailure,
)


def card_of(nvml: FakeNvml, uuid: str = UUID, **options) -> Card:
    return Card(nvml, find_device(nvml, uuid), **options)


def test_a_card_is_listed_with_its_memory_and_load_in_the_units_of_the_lab():
    (gpu,), absence = list_gpus(fake_nvml.healthy())
    assert absence is None
    assert (gpu.uuid, gpu.name) == (UUID, "NVIDIA Test 4000")
    assert (gpu.total_mib, gpu.free_mib, gpu.busy_percent) == (12288, 10240, 37)
    assert gpu.power_limit_watts == 115
    assert gpu.absences.reasons == {}


def test_who_holds_memory_is_told_by_card_and_process_and_a_silent_card_is_left_out():
    shared = FakeCard(holders={41: 512 * 2**20, 42: None})
    silent = FakeCard(uuid=OTHER_UUID, holders=NvmlFailure(NOT_SUPPORTED))
    assert vram_holders(FakeNvml(shared, silent)) == {UUID: {41: 512, 42: None}}
    assert vram_holders(fake_nvml.no_driver()) == {}


def test_a_laptop_card_without_power_figures_is_listed_without_a_power_limit():
    (gpu,), _ = list_gpus(fake_nvml.power_unsupported())
    assert gpu.power_limit_watts is None
    assert gpu.absences.reasons == {}, "it is no signal that a page would have to explain"


def test_names_and_uuids_given_as_bytes_are_read_as_text():
    (gpu,), _ = list_gpus(fake_nvml.healthy(uuid=UUID.encode(), name=b"NVIDIA Old"))
    assert (gpu.uuid, gpu.name) == (UUID, "NVIDIA Old")


def test_without_a_driver_there_are_no_cards_and_a_reason():
    assert list_gpus(fake_nvml.no_driver()) == ((), "absent.no_driver")


def test_a_driver_without_cards_says_so():
    assert list_gpus(FakeNvml()) == ((), "absent.no_gpu")


def test_one_failing_card_does_not_hide_the_others():
    gpus, absence = list_gpus(fake_nvml.one_failing_card())
    assert [gpu.uuid for gpu in gpus] == [OTHER_UUID]
    assert absence is None


def test_where_every_card_fails_the_reason_is_theirs():
    assert list_gpus(FakeNvml(FakeCard(broken=NvmlFailure(GPU_IS_LOST)))) == ((), "absent.lost")


def test_a_card_in_mig_mode_is_listed_as_its_slices():
    (gpu,), _ = list_gpus(fake_nvml.mig())
    assert gpu.uuid == SLICE_UUID
    assert gpu.total_mib == 12288
    assert gpu.busy_percent is None
    assert gpu.absences.reasons == {"busy_percent": "absent.mig"}


def test_a_card_in_mig_mode_without_slices_is_of_no_use_to_anybody():
    assert list_gpus(FakeNvml(FakeCard(slices=[]))) == ((), "absent.mig")


def test_a_card_with_unified_memory_is_listed_without_memory_figures():
    (gpu,), _ = list_gpus(fake_nvml.unified_memory())
    assert (gpu.total_mib, gpu.free_mib) == (None, None)
    assert gpu.busy_percent == 37
    assert gpu.absences.reasons == {
        "total_mib": "absent.not_supported",
        "free_mib": "absent.not_supported",
    }


def test_listing_gives_nvml_back():
    nvml = fake_nvml.one_failing_card()
    list_gpus(nvml)
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("nvml", "asked"),
    [
        (UUID, UUID.encode()),
        (UUID, UUID.removeprefix("GPU-")),  # as PyTorch writes it
        (UUID, UUID.upper()),
        (SLICE_UUID, SLICE_UUID.removeprefix("MIG-").encode()),
    ],
    ids=["bytes", "without its kind", "capitals", "a MIG slice"],
)
def test_the_same_card_is_known_however_its_uuid_is_written(nvml, asked):
    assert same_uuid(nvml, asked)


def test_a_card_is_found_by_uuid_wherever_it_stands_in_the_list():
    nvml = FakeNvml(FakeCard(uuid=OTHER_UUID, gpu_percent=99), FakeCard(gpu_percent=5))
    assert card_of(nvml).read().gpu_percent == 5


def test_an_unknown_uuid_gives_no_card_rather_than_another_one():
    with pytest.raises(GpuAbsent) as absent:
        find_device(fake_nvml.healthy(), OTHER_UUID)
    assert absent.value.reason == "absent.no_gpu"


def test_a_card_that_may_be_the_failing_one_counts_as_lost():
    with pytest.raises(GpuAbsent) as absent:
        find_device(fake_nvml.one_failing_card(), UUID)
    assert absent.value.reason == "absent.lost"


def test_a_reading_has_watts_mib_degrees_and_mhz():
    nvml = fake_nvml.healthy(holders={41: 512 * 2**20, 42: None})
    assert card_of(nvml).read() == CardReading(
        gpu_percent=37,
        card_used_mib=2048,
        power_watts=81.5,
        temperature_celsius=54,
        clock_mhz=1710,
        holders={41: 512, 42: None},
    )


def test_power_that_is_not_supported_is_none_and_is_asked_for_only_once():
    nvml = fake_nvml.power_unsupported()
    card = card_of(nvml)
    readings = [card.read() for _ in range(5)]
    assert [reading.power_watts for reading in readings] == [None] * 5
    assert [reading.gpu_percent for reading in readings] == [37] * 5
    assert card.reasons == {"power_watts": "absent.not_supported"}
    assert nvml.queries["PowerUsage"] == 1


def test_a_mig_slice_reads_its_memory_and_names_mig_for_the_rest():
    reading = card_of(fake_nvml.mig(), SLICE_UUID).read()
    assert reading == CardReading(card_used_mib=2048, holders={})


def test_a_mig_slice_says_that_it_is_one():
    card = card_of(fake_nvml.mig(), SLICE_UUID)
    card.read()
    assert set(card.reasons.values()) == {"absent.mig"}
    assert set(card.reasons) == {"gpu_percent", "power_watts", "temperature_celsius", "clock_mhz"}


def test_what_is_forbidden_is_none_and_the_rest_is_still_read():
    card = card_of(fake_nvml.no_permission())
    reading = card.read()
    assert (reading.gpu_percent, reading.holders) == (None, None)
    assert (reading.card_used_mib, reading.power_watts) == (2048, 81.5)
    assert card.reasons["gpu_percent"] == "absent.no_permission"


def test_a_passing_error_is_asked_again_at_the_next_reading():
    nvml = fake_nvml.healthy()
    card = card_of(nvml)
    nvml.cards[0].gpu_percent = NvmlFailure(UNKNOWN)
    assert card.read().gpu_percent is None
    assert card.reasons == {"gpu_percent": "absent.error"}
    nvml.cards[0].gpu_percent = 0
    assert card.read().gpu_percent == 0  # a measured zero, not an absence
    assert card.reasons == {}


def test_a_card_lost_in_the_middle_turns_absent_and_is_seldom_asked():
    now = [100.0]
    nvml = fake_nvml.healthy()
    card = card_of(nvml, clock=lambda: now[0])
    assert card.read().power_watts == 81.5
    nvml.cards[0].broken = NvmlFailure(GPU_IS_LOST)
    for _ in range(5):
        assert card.read() == CardReading()
    assert set(card.reasons.values()) == {"absent.lost"}
    assert nvml.queries["PowerUsage"] == 2

    nvml.cards[0].broken = None
    now[0] += lab_nvml.LOST_RETRY_SECONDS
    assert card.read().power_watts == 81.5


def test_an_error_that_is_not_nvmls_own_is_an_absence_too():
    nvml = fake_nvml.healthy(holders=None)  # the answer has not the form that it should have
    card = card_of(nvml)
    assert card.read().holders is None
    assert card.reasons == {"own_vram_mib": "absent.error"}


def test_a_machine_without_the_nvml_package_has_no_driver_to_speak_of(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list_gpus() == ((), "absent.no_driver")


@pytest.mark.gpu
def test_the_real_driver_lists_the_card_that_pytorch_sees():
    import torch

    gpus, _ = list_gpus()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    assert any(same_uuid(gpu.uuid, uuid) for gpu in gpus)


def test_not_supported_of_the_process_list_leaves_other_figures_alone():
    card = card_of(fake_nvml.healthy(holders=NvmlFailure(NOT_SUPPORTED)))
    reading = card.read()
    assert reading.holders is None
    assert reading.card_used_mib == 2048
