"""The processor of this machine, as the kernel describes it."""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def this_processor(cpuinfo: Path = _CPUINFO) -> str:
    """Return the model and the instruction sets of the processor."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return platform.machine()
    wanted = ("model name", "flags", "CPU part", "Features")
    return "\n".join(
        [platform.machine(), *sorted({line for line in lines if line.startswith(wanted)})]
    )


def has_int8_products(instructions: str = "vnni") -> bool:
    """Return whether sums of products of 8 bits do not overflow: without VNNI `instructions`, x86 adds pairs in 16 bits."""
    return instructions in this_processor() or platform.machine() not in ("x86_64", "AMD64")
