"""Where mgi_gpu_bench is: in the package, or built of a clone's sources when it is first wanted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mgi
from mgi.errors import Error, NotFound

NAME = "mgi_gpu_bench"
_INSTALLED = Path(mgi.__file__).parent / "bin" / NAME
#: Nothing but the program, for the GPU that is there, with what a machine with CUDA has.
_SETTINGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_UNITY_BUILD": "ON",
    "CMAKE_UNITY_BUILD_BATCH_SIZE": "6",
    "MGI_BUILD_CUDA": "ON",
    "MGI_CUDA_ARCHITECTURES": "native",
    "MGI_BUILD_TESTS": "OFF",
    "MGI_BUILD_EXAMPLES": "OFF",
    "MGI_BUILD_BENCH": "OFF",
    "MGI_BUILD_CONTROL": "OFF",
    "MGI_THIRD_PARTY": "AUTO",
}


def find_or_build() -> Path:
    """The program; ``$MGI_GPU_BENCH`` names another. Builds it if it must, and says so."""
    told = os.environ.get("MGI_GPU_BENCH")
    if told:
        if not os.access(told, os.X_OK):
            raise NotFound(f"MGI_GPU_BENCH is {told}, which is no program")
        return Path(told)
    if os.access(_INSTALLED, os.X_OK):
        return _INSTALLED
    sources, nvcc, cmake = next(_clones(), None), _nvcc(), _cmake()
    if sources is None or nvcc is None or cmake is None:
        missing = "clone of MGI around or here to build it of"
        if sources is not None:
            missing = "CMake" if nvcc else "nvcc of CUDA 13 on PATH to build it with"
        raise NotFound(
            f"this installation was built without {NAME}, and there is no {missing}: in a clone, "
            "on a machine with CUDA 13, tools/setup.sh builds the package with it"
        )
    return _built(sources, nvcc, cmake)


def _clones() -> Iterator[Path]:
    """Where MGI's sources may be: around the package, around its environment, here."""
    for folder in (Path(__file__).resolve().parents[3], Path(sys.prefix).parent, Path.cwd()):
        if (folder / "bench" / "gpu" / "main.cu").exists():
            yield folder


def _nvcc() -> str | None:
    for candidate in (os.environ.get("CUDACXX"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if candidate and os.access(candidate, os.X_OK):
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True).stdout
            release = said.partition("release ")[2].partition(".")[0]
            if release.isdigit() and int(release) >= 13:
                return candidate
    return None


def _cmake() -> str | None:
    own = Path(sys.prefix) / "bin" / "cmake"
    return str(own) if own.exists() else shutil.which("cmake")


def _built(root: Path, nvcc: str, cmake: str) -> Path:
    """The program made of these sources; nothing is compiled twice."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mgi" / NAME
    if not (cache / NAME).exists():
        print(f"building {NAME} in {cache}, which takes some minutes", file=sys.stderr)
    settings = [f"-D{name}={value}" for name, value in _SETTINGS.items()]
    _call([cmake, "-S", str(root), "-B", str(cache), f"-DCMAKE_CUDA_COMPILER={nvcc}", *settings])
    _call([cmake, "--build", str(cache), "--target", NAME, "--parallel", str(os.cpu_count() or 1)])
    return cache / NAME


def _call(command: list[str]) -> None:
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode != 0:
        said = "\n".join(ended.stdout.splitlines()[-20:])
        raise Error(f"{NAME} was not built: {' '.join(command)} failed:\n{said}")
