"""One reading of everything: whose memory is whose, and why a figure is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.telemetry.probe import CARD_FIELDS, Probe
from core.telemetry.torch_memory import TorchMemory
from tests.telemetry import fake_nvml
from tests.telemetry.fake_nvml import GPU_IS_LOST, OTHER_UUID, SLICE_UUID, UUID, NvmlFailure

MIB = 2**20
ROOT = Path(__file__).parents[2]
ME = os.getpid()


def torch_module(*, started: bool = True, uuids: tuple[str, ...] = (UUID,), reserved_mib=300):
    """As much of PyTorch as the meter looks at; its numbers are of the last card."""

    def stats(index):
        mine = reserved_mib if index == len(uuids) - 1 else 1
        return {
            "reserved_bytes": {"all": {"current": mine * MIB}},
            "allocated_bytes": {"all": {"current": 200 * MIB}},
        }

    cuda = SimpleNamespace(
        is_initialized=lambda: started,
        device_count=lambda: len(uuids),
        get_device_properties=lambda i: SimpleNamespace(uuid=uuids[i].removeprefix("GPU-")),
        memory=SimpleNamespace(memory_stats_as_nested_dict=stats),
    )
    return {"torch": SimpleNamespace(cuda=cuda)}


def probe(nvml, *, uuid: str = UUID, modules=None, **options) -> Probe:
    torch = TorchMemory(uuid, modules=modules or {})
    return Probe(gpu_uuid=uuid, nvml=nvml, torch=torch, **options)


def test_own_vram_is_what_the_driver_counts_for_this_process():
    nvml = fake_nvml.healthy(holders={ME: 700 * MIB, 1: 900 * MIB})
    reading = probe(nvml, modules=torch_module()).read(0)
    assert reading.own_vram_mib == 700
    assert (reading.reserved_mib, reading.allocated_mib) == (300, 200)


def test_own_vram_is_pytorchs_figure_where_the_driver_lists_foreign_process_ids_only():
    nvml = fake_nvml.healthy(holders={999_999: 700 * MIB})  # a container sees the host's ids
    assert probe(nvml, modules=torch_module()).read(0).own_vram_mib == 300


def test_own_vram_is_zero_where_the_driver_names_others_and_cuda_has_not_started():
    nvml = fake_nvml.healthy(holders={999_999: 700 * MIB})
    reading = probe(nvml, modules=torch_module(started=False)).read(0)
    assert reading.own_vram_mib == 0
    assert (reading.reserved_mib, reading.allocated_mib) == (None, None)


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\n")


def test_own_vram_counts_the_children_too(child):
    nvml = fake_nvml.healthy(holders={ME: 700 * MIB, child.pid: 50 * MIB})
    assert probe(nvml).read(0).own_vram_mib == 750


@pytest.mark.parametrize(("on_the_host", "own_vram_mib"), [(True, 0), (False, None)])
def test_in_a_container_with_children_not_to_be_listed_is_no_proof_of_zero(
    child, on_the_host, own_vram_mib
):
    watching = probe(fake_nvml.healthy(), ids_are_the_hosts=on_the_host)
    assert watching.read(0).own_vram_mib == own_vram_mib
    assert ("own_vram_mib" in watching.absences.reasons) == (own_vram_mib is None)


def test_under_wsl_own_vram_is_pytorchs_figure():
    under_wsl = probe(fake_nvml.wsl(ME), modules=torch_module())
    reading = under_wsl.read(0)
    assert reading.own_vram_mib == 300
    assert reading.temperature_celsius is None
    assert under_wsl.absences.reasons == {"temperature_celsius": "absent.not_supported"}


def test_under_wsl_own_vram_is_absent_with_a_reason_until_cuda_starts():
    under_wsl = probe(fake_nvml.wsl(ME))
    assert under_wsl.read(0).own_vram_mib is None
    assert under_wsl.absences.reasons["own_vram_mib"] == "absent.not_supported"


def test_own_vram_on_a_mig_slice_is_read_from_the_slice():
    nvml = fake_nvml.mig()
    nvml.cards[0].slices[0].holders = {ME: 50 * MIB}
    on_slice = probe(nvml, uuid=SLICE_UUID)
    assert on_slice.read(0).own_vram_mib == 50
    assert on_slice.absences.reasons["gpu_percent"] == "absent.mig"


def test_pytorchs_memory_is_that_of_the_card_with_the_same_uuid_not_of_the_same_number():
    modules = torch_module(uuids=(OTHER_UUID, UUID))
    assert probe(fake_nvml.healthy(), modules=modules).read(0).reserved_mib == 300


def test_pytorch_on_another_card_only_is_absent():
    modules = torch_module(uuids=(OTHER_UUID,))
    assert probe(fake_nvml.healthy(), modules=modules).read(0).reserved_mib is None


def test_a_torch_that_is_still_being_imported_is_no_trouble():
    modules = {"torch": SimpleNamespace()}
    assert probe(fake_nvml.healthy(), modules=modules).read(0).reserved_mib is None


def test_without_a_driver_the_process_is_read_and_each_card_figure_names_the_reason():
    without = probe(fake_nvml.no_driver())
    reading = without.read(7.0)
    assert reading.seconds == 7
    assert reading.ram_mib > 1
    assert [getattr(reading, field) for field in CARD_FIELDS] == [None] * len(CARD_FIELDS)
    assert {without.absences.reasons[field] for field in CARD_FIELDS} == {"absent.no_driver"}


def test_a_meter_of_the_machine_alone_does_not_open_nvml():
    nvml = fake_nvml.healthy()
    reading = Probe(gpu_uuid=None, nvml=nvml).read(0)
    assert reading.gpu_percent is None
    assert nvml.queries == {}


def test_an_unknown_card_leaves_card_figures_absent_rather_than_anothers():
    assert probe(fake_nvml.healthy(), uuid=OTHER_UUID).read(0).gpu_percent is None


def test_a_card_lost_in_the_middle_leaves_the_process_readings_going():
    nvml = fake_nvml.healthy()
    watching = probe(nvml)
    assert watching.read(0).gpu_percent == 37
    nvml.cards[0].broken = NvmlFailure(GPU_IS_LOST)
    reading = watching.read(1)
    assert reading.gpu_percent is None
    assert reading.ram_mib > 1
    assert set(watching.absences.reasons.values()) == {"absent.lost"}


def test_closing_gives_nvml_back_once():
    nvml = fake_nvml.healthy()
    closing = probe(nvml)
    assert nvml.open == 1
    closing.close()
    closing.close()
    assert nvml.open == 0


def test_a_meter_with_a_card_does_not_import_torch():
    code = f"""
import sys
from core.telemetry.machine import describe_machine
from core.telemetry.meter import open_meter
with open_meter(gpu_uuid="{UUID}", period_seconds=0.05) as meter, meter.section("nothing"):
    describe_machine()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
