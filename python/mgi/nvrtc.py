"""NVRTC, NVIDIA's compiler as a library, for kernels that include MGI's device headers."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mgi.errors import InvalidArgument, NotFound
from mgi.kernels import include_dirs, nvidia_packages

_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12")
_OLDEST = (12, 8)


def compile_ptx(
    source: str, architecture: str, options: Sequence[str] = (), name: str = "kernel.cu"
) -> bytes:
    """PTX of a kernel's source, which may include ``<mgi/device.hpp>``.

    `architecture` is ``"compute_90"`` or the like. Raises :class:`mgi.InvalidArgument` with what
    the compiler says, and :class:`mgi.NotFound` without NVRTC 12.8 or newer.
    """
    nvrtc = _library()
    program = ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), 0, None, None
        ),
        "begin to compile",
    )
    try:
        words = [
            f"-arch={architecture}",
            "-std=c++20",
            *(f"-I{folder}" for folder in include_dirs()),
        ]
        words += options
        array = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        if nvrtc.nvrtcCompileProgram(program, len(words), array) != 0:
            text = _text(program, "ProgramLog").decode(errors="replace").strip()
            raise InvalidArgument(f"{name} does not compile for {architecture}:\n{text}")
        return _text(program, "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    """A text of a program's; without the byte 0 at its end."""
    nvrtc = _library()
    size = ctypes.c_size_t()
    _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), "ask for its size")
    text = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, text), "get what was compiled")
    return text.value


def _check(result: int, what: str) -> None:
    if result != 0:
        words = _library().nvrtcGetErrorString(result).decode()
        raise InvalidArgument(f"NVRTC cannot {what}: {words}")


def _places(library: str) -> Iterator[str]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        root = os.environ.get(name)
        if root:
            yield str(Path(root) / "lib64" / library)
    for folder in nvidia_packages():
        yield str(folder / "lib" / library)
    yield library
    yield f"/usr/local/cuda/lib64/{library}"


def _version(nvrtc: Any) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _newest() -> int:
    """The CUDA whose programs the driver runs; any where there is no driver."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return sys.maxsize
    return sys.maxsize if failed else version.value // 1000


@functools.cache
def _library() -> Any:
    for place in itertools.chain.from_iterable(map(_places, _LIBRARIES)):
        if "/" in place and not Path(place).exists():
            continue
        try:
            found = ctypes.CDLL(place)
        except OSError:
            continue
        version = _version(found)
        if version < _OLDEST or version[0] > _newest():
            continue
        found.nvrtcGetErrorString.restype = ctypes.c_char_p
        return found
    raise NotFound(
        f"no NVRTC ({_LIBRARIES[0]}, or 12.8), which compiles kernels: install a CUDA toolkit of "
        "version 12.8 or newer, or 'pip install nvidia-cuda-nvrtc' "
        "(nvidia-cuda-nvrtc-cu12 of CUDA 12)"
    )
