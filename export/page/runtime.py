"""onnxruntime-web, its builds for wasm and WebGPU: from npm once, checked, kept in the cache."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
INTEGRITY = (
    "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZ"
    "ClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
)
# in the package: on the page. Not .mjs: some servers do not know that it is JavaScript
FILES = {
    "package/dist/ort.wasm.bundle.min.mjs": "ort.js",
    "package/dist/ort-wasm-simd-threaded.wasm": "ort.wasm",
}
WEBGPU_FILES = {
    "package/dist/ort.webgpu.bundle.min.mjs": "webgpu.js",
    "package/dist/ort-wasm-simd-threaded.asyncify.wasm": "webgpu.wasm",
}
LICENCE = Path(__file__).with_name("onnxruntime-web.LICENSE")  # the package has none inside


def write_runtime(folder: Path, *, webgpu: bool = False) -> None:
    """Write the files that the page loads, and their licence, to `folder`."""
    archive = find_archive()
    folder.mkdir(parents=True)
    with tarfile.open(archive) as file:
        for name, target in (FILES | (WEBGPU_FILES if webgpu else {})).items():
            (folder / target).write_bytes(file.extractfile(name).read())
    shutil.copyfile(LICENCE, folder / "LICENSE")


def find_archive() -> Path:
    """The package's archive in the cache, fetched with `npm pack` if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdn_keras"
    path = cache / f"{PACKAGE}-{VERSION}.tgz"
    if path.is_file() and integrity(path) == INTEGRITY:
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fetched = _npm_pack(Path(folder))
        received = integrity(fetched)
        if received != INTEGRITY:
            raise ValueError(
                f"{PACKAGE} {VERSION} from npm must have the integrity {INTEGRITY}. Received: "
                f"{received}. The file was not kept."
            )
        fetched.replace(path)  # whole or not at all
    return path


def integrity(path: Path) -> str:
    """As npm writes it: the name of the hash, and the hash in base 64."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    return f"sha512-{base64.b64encode(digest).decode()}"


def _npm_pack(folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError(
            f"The page needs {PACKAGE}, which is fetched once with npm. Expected: `npm` on the "
            "PATH (it comes with Node.js). Received: none."
        )
    print(f"fetching {PACKAGE} {VERSION} with npm …")
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or len(found) != 1:
        lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
        said = "; ".join(lines) or f"exit code {done.returncode}, {len(found)} files"
        raise ConnectionError(
            f"`npm pack {PACKAGE}@{VERSION}` must fetch one archive. Received: {said}."
        )
    return found[0]
