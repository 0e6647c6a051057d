"""What the machine is said to be, also inside a container that may use a part of it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import psutil
import pytest

from core.telemetry.machine import (
    describe_machine,
    model_in_cpuinfo,
    usable_cores,
    usable_ram_mib,
)

MIB = 2**20


@pytest.fixture
def machine_of(monkeypatch, tmp_path):
    """Builds a control-group tree: lines of /proc/self/cgroup, and files under the mount."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)

    def build(lines: str, files: dict[str, str]) -> dict[str, Path]:
        proc, mount = tmp_path / "cgroup", tmp_path / "mount"
        proc.write_text(lines)
        for name, text in files.items():
            (mount / name).parent.mkdir(parents=True, exist_ok=True)
            (mount / name).write_text(text)
        return {"proc": proc, "mount": mount}

    return build


def test_this_machine_has_a_processor_memory_and_python():
    machine = describe_machine()
    assert machine.cpu
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    assert 0 < machine.ram_mib <= psutil.virtual_memory().total / MIB
    assert machine.python == platform.python_version()
    assert machine.torch == metadata.version("torch")
    assert bool(machine.gpus) != bool(machine.gpu_absence)


def test_a_cpu_share_of_a_container_bounds_the_cores(machine_of):
    where = machine_of("0::/app\n", {"app/cpu.max": "250000 100000\n"})
    assert usable_cores(**where) == 3  # two and a half


def test_the_tightest_share_on_the_way_up_counts(machine_of):
    where = machine_of(
        "0::/pod/app\n",
        {
            "pod/app/cpu.max": "800000 100000",
            "pod/cpu.max": "400000 100000",
            "cpu.max": "max 100000",
        },
    )
    assert usable_cores(**where) == 4


def test_no_share_leaves_the_cores_of_the_affinity(machine_of):
    assert usable_cores(**machine_of("0::/\n", {"cpu.max": "max 100000"})) == 16


def test_control_groups_of_the_first_version_are_read_too(machine_of):
    where = machine_of(
        "4:memory:/box\n3:cpu,cpuacct:/box\n",
        {
            "cpu/box/cpu.cfs_quota_us": "200000\n",
            "cpu/box/cpu.cfs_period_us": "100000\n",
            "memory/box/memory.limit_in_bytes": str(512 * MIB),
        },
    )
    assert usable_cores(**where) == 2
    assert usable_ram_mib(**where) == 512


def test_minus_one_is_no_share_in_the_first_version(machine_of):
    files = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert usable_cores(**machine_of("3:cpu:/\n", files)) == 16


def test_a_memory_limit_of_a_container_bounds_the_ram(machine_of):
    where = machine_of("0::/app\n", {"app/memory.max": str(256 * MIB), "memory.max": "max\n"})
    assert usable_ram_mib(**where) == 256


def test_without_control_groups_the_machine_is_taken_whole(tmp_path):
    nowhere = tmp_path / "missing"
    whole = psutil.virtual_memory().total / MIB
    assert usable_ram_mib(proc=nowhere, mount=nowhere) == pytest.approx(whole)


def test_the_processor_is_named_from_the_first_of_its_cores():
    text = "processor\t: 0\nmodel name\t: AMD EPYC 9V74\n\nprocessor\t: 1\nmodel name\t: another\n"
    assert model_in_cpuinfo(text) == "AMD EPYC 9V74"


def test_a_processor_without_a_name_gives_none():
    assert model_in_cpuinfo("processor\t: 0\nBogoMIPS\t: 50.00\n") == ""
