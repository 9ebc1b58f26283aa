"""What processor this is: speed, and the rounding of int8, depend on it."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path

# flag in /proc/cpuinfo -> what people call it
_INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx_vnni": "AVX-VNNI",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx_bf16": "AMX BF16",
}


@lru_cache
def cpu_info() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; empty where there is no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    fields = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in fields}


def instruction_sets() -> tuple[str, ...]:
    """Those that decide how fast networks are computed, and how int8 is."""
    flags = cpu_info().get("flags", "").split()
    return tuple(name for flag, name in _INSTRUCTIONS.items() if flag in flags)


def cpu_name() -> str:
    """>>> cpu_name()
    'AMD EPYC (family 25, model 1; AVX2)'
    """
    info = cpu_info()
    name = info.get("model name") or platform.processor() or platform.machine()
    details = []
    if "cpu family" in info:
        details.append(f"family {info['cpu family']}, model {info['model']}")
    if instruction_sets():
        details.append(", ".join(instruction_sets()))
    return f"{name} ({'; '.join(details)})" if details else name


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 numbers itself; if not, they are slower."""
    return any(name.endswith("BF16") for name in instruction_sets())
