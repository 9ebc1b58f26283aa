"""The CPU's name and instruction sets, from /proc/cpuinfo."""

import pytest

from gdn_keras import cpu

ROME = "processor\t: 0\nmodel name\t: AMD EPYC 7742\nflags\t\t: fpu sse4_1 avx avx2 fma\n"
GENOA = "model name\t: AMD EPYC 9654\nflags\t\t: avx avx2 avx512f avx512_bf16 avx512_vnni\n"
ALDER_LAKE = "model name\t: i5-12600K\nflags\t\t: avx avx2 avx_vnni\n"
SAPPHIRE_RAPIDS = "model name\t: Xeon 8480\nflags\t\t: avx2 avx512f avx512_vnni amx_bf16\n"
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
        (SAPPHIRE_RAPIDS, "Xeon 8480 (AVX2, AVX-512, VNNI, bfloat16)", True),
        (OLD, "Opteron (no AVX2)", False),
    ],
)
def test_instruction_sets_of_a_cpu(cpuinfo, content, text, bfloat16):
    cpuinfo.write_text(content)
    assert cpu.text(cpu.describe()) == text
    assert cpu.has_bfloat16() == bfloat16


def test_what_cannot_be_read_is_unknown(cpuinfo, monkeypatch):
    monkeypatch.setattr(cpu.platform, "processor", lambda: "arm")
    assert cpu.describe() == {"name": "arm", "instructions": None}
    assert cpu.text(cpu.describe()) == "arm (instruction set unknown)"
    assert not cpu.has_bfloat16()
