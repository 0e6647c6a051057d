"""The computer a number was measured on: processor, memory, cards. Never imports torch."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import psutil

from core.telemetry.nvml import list_gpus
from core.telemetry.readings import Machine

__all__ = ["describe_machine", "list_gpus"]

MIB = 2**20


def describe_machine() -> Machine:
    """What this process may use of this computer, looked at now."""
    gpus, absence = list_gpus()
    return Machine(
        cpu=cpu_model(),
        cores=usable_cores(),
        ram_mib=usable_ram_mib(),
        gpus=gpus,
        gpu_absence=absence,
        python=platform.python_version(),
        torch=_version("torch"),
    )


def cpu_model() -> str:
    """The processor's name as its maker writes it, or its kind where it has none."""
    name = ""
    if sys.platform == "linux":
        name = model_in_cpuinfo(_text(Path("/proc/cpuinfo")))
    elif sys.platform == "darwin":
        name = _output("sysctl", "-n", "machdep.cpu.brand_string")
    elif sys.platform == "win32":
        name = _windows_processor()
    return " ".join((name or platform.processor() or platform.machine()).split())


def model_in_cpuinfo(text: str) -> str:
    """The model in Linux's /proc/cpuinfo; empty where it is not told (most ARM kernels)."""
    fields = dict(reversed([_split(line) for line in text.splitlines() if ":" in line]))
    for field in ("model name", "Model", "Hardware", "cpu model"):
        if fields.get(field):
            return fields[field]
    return ""


def usable_cores(
    *, proc: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> int:
    """Logical processors that this process may use: affinity, and a container's share if less."""
    allowed = (
        len(os.sched_getaffinity(0))
        if sys.platform == "linux"
        else os.cpu_count() or 1  # no affinity to ask for on macOS; rare on Windows
    )
    shares = [quota for folder in _cgroup_folders(proc, mount, "cpu") if (quota := _quota(folder))]
    return max(1, min([allowed, *(math.ceil(share) for share in shares)]))


def usable_ram_mib(
    *, proc: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float:
    """Memory of the machine, or of the container if that is less."""
    limits = [
        int(text)
        for folder in _cgroup_folders(proc, mount, "memory")
        for file in ("memory.max", "memory.limit_in_bytes")
        if (text := _text(folder / file).strip()).isdigit()  # "max": no limit
    ]
    return min([psutil.virtual_memory().total, *limits]) / MIB


def _quota(folder: Path) -> float | None:
    """Processors' worth of time allowed by one control group; None: no limit."""
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")  # version 2
    if not period:
        quota = _text(folder / "cpu.cfs_quota_us").strip()  # version 1; -1: no limit
        period = _text(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _cgroup_folders(proc: Path, mount: Path, controller: str) -> list[Path]:
    """The folders of this process's control group and of all above it; each may hold a limit."""
    for line in _text(proc).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2: one tree
            root = mount
        elif controller in controllers.split(","):
            root = mount / controller
        else:
            continue
        folder = root / path.lstrip("/")
        return [folder, *(above for above in folder.parents if above.is_relative_to(root))]
    return []


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _split(line: str) -> tuple[str, str]:
    field, _, value = line.partition(":")
    return field.strip(), value.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not this kind of system, or not ours to read
        return ""


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _windows_processor() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
    except OSError:
        return ""
