"""The CPU's name and instruction sets, from /proc/cpuinfo."""

import os
import platform
import subprocess
import sys

import pytest

from gdn_keras.utils import cpu

ROME = "processor\t: 0\nmodel name\t: AMD EPYC 7742\nflags\t\t: fpu sse4_1 avx avx2 fma\n"
GENOA = "model name\t: AMD EPYC 9654\nflags\t\t: avx avx2 avx512f avx512_bf16 avx512_vnni\n"
ALDER_LAKE = "model name\t: i5-12600K\nflags\t\t: avx avx2 avx_vnni\n"
SAPPHIRE_RAPIDS = (
    "model name\t: Xeon 8480\nflags\t\t: avx2 avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile\n"
)
OLD = "model name\t: Opteron\nflags\t\t: fpu sse4_1 avx\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu, "_CPUINFO", path)
    return path


@pytest.mark.parametrize(
    "content, text, bfloat16",
    [
        (ROME, "AMD EPYC 7742 (AVX2)", False),
        (GENOA, "AMD EPYC 9654 (AVX2, AVX-512, VNNI, bfloat16)", True),
        (ALDER_LAKE, "i5-12600K (AVX2, VNNI)", False),
        (SAPPHIRE_RAPIDS, "Xeon 8480 (AVX2, AVX-512, VNNI, bfloat16, AMX)", True),
        (OLD, "Opteron (no AVX2)", False),
    ],
)
def test_instruction_sets_of_a_cpu(cpuinfo, monkeypatch, content, text, bfloat16):
    cpuinfo.write_text(content)
    monkeypatch.setattr(cpu, "_tile_palettes", lambda: 1)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert cpu.text(cpu.describe()) == text
    assert cpu.prefers_bfloat16() == bfloat16


@pytest.mark.parametrize(
    "limit, bfloat16",
    [("AVX2", False), ("avx512_core_vnni", False), ("AVX512_CORE_BF16", True), ("ALL", True)],
)
def test_a_limit_of_onednn_counts(cpuinfo, monkeypatch, limit, bfloat16):
    cpuinfo.write_text(GENOA)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert cpu.prefers_bfloat16() == bfloat16


def test_what_cannot_be_read_is_unknown(cpuinfo, monkeypatch):
    monkeypatch.setattr(cpu.platform, "processor", lambda: "arm")
    assert cpu.describe() == {"name": "arm", "instructions": None}
    assert cpu.text(cpu.describe()) == "arm (instruction set unknown)"
    assert not cpu.prefers_bfloat16()


def test_amx_without_tile_palettes_is_avoided(cpuinfo, monkeypatch):
    """As on some virtual machines, where oneDNN fails with an illegal instruction."""
    cpuinfo.write_text(SAPPHIRE_RAPIDS)
    monkeypatch.setattr(cpu, "_tile_palettes", lambda: 0)
    assert cpu.text(cpu.describe()) == "Xeon 8480 (AVX2, AVX-512, VNNI, bfloat16)"
    assert not cpu.prefers_bfloat16()

    monkeypatch.setattr(cpu.os, "environ", {})
    cpu.avoid_broken_amx()
    assert cpu.os.environ == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    monkeypatch.setattr(cpu.os, "environ", {"ONEDNN_MAX_CPU_ISA": "AVX2"})
    cpu.avoid_broken_amx()
    assert cpu.os.environ == {"ONEDNN_MAX_CPU_ISA": "AVX2"}  # the user's choice stays


@pytest.mark.parametrize("palettes, content", [(1, SAPPHIRE_RAPIDS), (None, GENOA), (0, GENOA)])
def test_working_amx_is_used(cpuinfo, monkeypatch, palettes, content):
    cpuinfo.write_text(content)
    monkeypatch.setattr(cpu, "_tile_palettes", lambda: palettes)
    monkeypatch.setattr(cpu.os, "environ", {})
    cpu.avoid_broken_amx()
    assert cpu.os.environ == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUID is an instruction of x86")
def test_number_of_tile_palettes_is_read_from_the_cpu():
    """There is one palette besides palette 0 so far; CPUs without AMX may return anything."""
    palettes = cpu._tile_palettes()
    assert isinstance(palettes, int) and palettes >= 0
    if "amx_tile" in (cpu.field("flags") or "").split():
        assert palettes in (0, 1)


def test_bfloat16_products_run_on_this_cpu():
    """In a fresh process, where nothing but `import gdn_keras` chooses the instructions."""
    environment = {k: v for k, v in os.environ.items() if k != "ONEDNN_MAX_CPU_ISA"}
    code = (
        "import gdn_keras, keras\n"
        "matrix = keras.ops.ones((64, 64), dtype='bfloat16')\n"
        "print(int(keras.ops.max(keras.ops.matmul(matrix, matrix))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["64"]
