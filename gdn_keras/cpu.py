"""The CPU and its instruction sets: what speed, and the kernels of int8, depend on."""

from __future__ import annotations

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_FLAGS = {  # any of these in /proc/cpuinfo
    "AVX2": {"avx2"},
    "AVX-512": {"avx512f"},
    "VNNI": {"avx512_vnni", "avx_vnni"},
    "bfloat16": {"avx512_bf16", "amx_bf16"},
}


def describe() -> dict:
    """`name` and `instructions`, a list of those of AVX2, AVX-512, VNNI and bfloat16 it has.

    `instructions` is None where the flags of the CPU cannot be read.
    """
    flags = field("flags")
    return {
        "name": field("model name") or platform.processor() or platform.machine(),
        "instructions": None
        if flags is None
        else [name for name, any_of in _FLAGS.items() if any_of & set(flags.split())],
    }


def text(cpu: dict) -> str:
    """One line for a table: "AMD EPYC (AVX2)"."""
    instructions = cpu["instructions"]
    listed = "instruction set unknown" if instructions is None else ", ".join(instructions)
    return f"{cpu['name']} ({listed or 'no AVX2'})"


def has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 numbers itself; if not, they are slower."""
    return "bfloat16" in (describe()["instructions"] or ())


def field(name: str) -> str | None:
    """The first CPU's entry in /proc/cpuinfo, if there is one."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return None
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in fields if key.strip() == name), None)
