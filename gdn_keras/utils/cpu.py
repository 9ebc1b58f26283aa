"""The CPU and its instruction sets: what speed, and the kernels of int8, depend on."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_FLAGS = {  # any of these in /proc/cpuinfo
    "AVX2": {"avx2"},
    "AVX-512": {"avx512f"},
    "VNNI": {"avx512_vnni", "avx_vnni"},
    "bfloat16": {"avx512_bf16", "amx_bf16"},
    "AMX": {"amx_bf16"},
}
_MAX_ISA = "ONEDNN_MAX_CPU_ISA"
# push rbx; mov eax, 0x1d; xor ecx, ecx; cpuid; pop rbx; ret
_CPUID_1D = bytes.fromhex("53 b8 1d000000 31c9 0fa2 5b c3")


def describe() -> dict:
    """`name` and `instructions`, a list of those of AVX2, AVX-512, VNNI, bfloat16 and AMX it has.

    `instructions` is None where the flags of the CPU cannot be read.
    """
    flags = field("flags")
    instructions = None
    if flags is not None:
        flags = set(flags.split()) - ({"amx_bf16"} if has_broken_amx() else set())
        instructions = [name for name, any_of in _FLAGS.items() if any_of & flags]
    name = field("model name") or platform.processor() or platform.machine()
    return {"name": name, "instructions": instructions}


def text(cpu: dict) -> str:
    """One line for a table: "AMD EPYC (AVX2)"."""
    instructions = cpu["instructions"]
    listed = "instruction set unknown" if instructions is None else ", ".join(instructions)
    return f"{cpu['name']} ({listed or 'no AVX2'})"


def prefers_bfloat16() -> bool:
    """Whether networks train faster in bfloat16 than in float32.

    They do with AMX, and with AVX-512 on AMD's CPUs. On an Intel CPU whose AMX cannot be used,
    bfloat16 took 1.3 to 1.6 times as long as float32.
    """
    able = "bfloat16" in (describe()["instructions"] or ()) and not has_broken_amx()
    return able and onednn_may_use_bfloat16()


def onednn_may_use_bfloat16() -> bool:
    """Whether the user has not limited oneDNN, with ONEDNN_MAX_CPU_ISA, to less than bfloat16.

    TensorFlow does not ask: where the CPU has bfloat16 and oneDNN may not use it, the process ends.
    """
    limit = os.environ.get(_MAX_ISA, "ALL").upper()
    return any(word in limit for word in ("BF16", "FP16", "AMX", "AVX10", "ALL", "DEFAULT"))


def has_broken_amx() -> bool:
    """Whether the CPU reports AMX, but none of the tile palettes that AMX needs.

    Some virtual machines do.
    """
    return "amx_tile" in (field("flags") or "").split() and _tile_palettes() == 0


def avoid_broken_amx() -> None:
    """Call this before anything is computed: oneDNN then uses AMX only if that works.

    Without it, the oneDNN of TensorFlow and PyTorch ends the process with an illegal instruction at
    the first product of bfloat16 matrices (https://github.com/uxlfoundation/oneDNN/issues/5689).
    """
    if _MAX_ISA not in os.environ and has_broken_amx():
        os.environ[_MAX_ISA] = "AVX512_CORE_FP16"  # the largest set without AMX


def field(name: str) -> str | None:
    """The first CPU's entry in /proc/cpuinfo, if there is one."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return None
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in fields if key.strip() == name), None)


@cache
def _tile_palettes() -> int | None:
    """The number of AMX tile palettes, CPUID.1DH:EAX; None where it cannot be read."""
    if platform.machine() != "x86_64":
        return None
    try:
        with mmap.mmap(-1, len(_CPUID_1D), prot=7) as memory:  # to read, write and execute
            memory.write(_CPUID_1D)
            start = ctypes.c_char.from_buffer(memory)
            palettes = ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(start))()
            del start  # the memory cannot be closed before
            return palettes
    except OSError:  # executable memory is not allowed
        return None
