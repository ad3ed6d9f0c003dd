#!/usr/bin/env python3
"""Check what compilers and formatters do not: the layers of the house and the length of its files.

- A room of src/ includes only rooms below it (docs/design.md has the order). Operators are clients
  of the public API: their own folder, core/ and <mgi/...>.
- include/mgi/device/ includes only itself, the standard library and libcu++ (<cuda/...>, and the
  toolkit's own headers under nvcc), never the host side.
- Public headers never include from src/, and name no third-party library but libcu++. Their lambdas
  name what they capture: nvcc and g++ lay implicit captures out in different orders, and the linker
  takes one of two inline functions for both.
- A source file holds one idea: at most 500 lines.
- What docs/protocols.md maps to code, models and Relacy scenarios is there.
- Every Python package that the set-up installs is pinned with hashes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Lowest first: a room may include itself and everything before it.
ROOMS = [
    "core",
    "gpu",
    "topology",
    "planner",
    "simulation",
    "memory",
    "simd",
    "transport",
    "mover",
    "control",
    "runtime",
]
MAX_LINES = 500
SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".inl", ".py", ".sh"}
FOLDERS = ["include", "src", "python", "bench", "tests", "examples", "tools", "cmake"]
IMPLICIT_CAPTURE = re.compile(r"\[(&|=)[],]")
INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')
# A header of the C++ or C standard library: no folder, and no ending but .h.
STANDARD = re.compile(r"^[a-z_0-9]+(\.h)?$")
TOOLKIT = re.compile(
    r"^(cuda|cuda_runtime|cuda_runtime_api|cooperative_groups)(\.h)?$|^(cuda|sys|linux)/"
)


def includes_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line number, name, in quotes) of every include in a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1][1:-1], match[1].startswith('"')


def check_room(path: Path) -> Iterator[str]:
    room = path.relative_to(ROOT / "src").parts[0]
    if room != "operators" and room not in ROOMS:
        yield f"{path}: src/{room} is no room of the house (see docs/design.md)"
        return
    below = ROOMS[:1] if room == "operators" else ROOMS[: ROOMS.index(room)]
    allowed = {room, *below}
    for number, name, quoted in includes_of(path):
        other = name.split("/")[0]
        if quoted and "/" in name and other not in allowed:
            yield f'{path}:{number}: src/{room} may not include "{name}"'


def check_public(path: Path) -> Iterator[str]:
    device = "device" in path.relative_to(ROOT / "include/mgi").parts[:-1]
    for number, name, quoted in includes_of(path):
        if quoted:
            yield f'{path}:{number}: public headers include <mgi/...>, not "{name}"'
        elif name.startswith("mgi/"):
            if device and not name.startswith("mgi/device/"):
                yield f"{path}:{number}: device headers know nothing of <{name}>"
        elif not STANDARD.match(name) and not TOOLKIT.match(name):
            yield f"{path}:{number}: <{name}> is third-party; public headers use libcu++ alone"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if IMPLICIT_CAPTURE.search(line):
            yield f"{path}:{number}: a lambda that both nvcc and g++ compile names its captures"


def check_length(path: Path) -> Iterator[str]:
    lines = len(path.read_text().splitlines())
    if lines > MAX_LINES:
        yield f"{path}: {lines} lines, more than {MAX_LINES}: does it hold one idea?"


def check_protocols() -> Iterator[str]:
    """The table of docs/protocols.md: `file: function`, `model.pml` and `scenario` in backticks."""
    page = ROOT / "docs/protocols.md"
    scenarios = "".join(f.read_text() for f in sorted((ROOT / "tests/relacy").glob("*.cpp")))
    rows = [line.split("|") for line in page.read_text().splitlines() if line.count("|") == 5]
    for _, step, code, models, names, _ in rows:
        for file, function in re.findall(r"`([\w/]+\.hpp): (\w+)`", code):
            path = ROOT / ("src" if "/" in file else "include/mgi/device") / file
            if not path.exists() or not re.search(rf"\b{function}\(", path.read_text()):
                yield f"{page}: {step.strip()}: there is no {function} in {file}"
        for model in re.findall(r"`(\w+\.pml)`", models):
            if not (ROOT / "tests/models" / model).exists():
                yield f"{page}: {step.strip()}: there is no model {model}"
        for name in re.findall(r"`([a-z.]+)`", names) if scenarios else []:
            if f'"{name}"' not in scenarios:
                yield f"{page}: {step.strip()}: there is no Relacy scenario {name}"


def check_pins() -> Iterator[str]:
    """Every requirement is one version, with the hashes that tools/pins.py writes."""
    for path in sorted(ROOT.glob("requirements*.txt")):
        text = path.read_text()
        if "\\\n" in text.replace(" \\\n    --hash=sha256:", ""):
            yield f"{path}: a line goes on with something else than a hash"
        for line in text.replace(" \\\n   ", "").splitlines():
            pin, *hashes = line.split(" --hash=sha256:")
            if not line or line.startswith("#"):
                continue
            if not re.match(r"[\w-]+==[\w.]+(; |$)", pin):
                yield f"{path}: {pin}: not NAME==VERSION"
            if not hashes or not all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes):
                yield f"{path}: {pin}: no hashes: .venv/bin/python tools/pins.py writes them"


def main() -> int:
    problems: list[str] = [*check_protocols(), *check_pins()]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            problems += check_length(path)
            if folder == "src":
                problems += check_room(path)
            if folder == "include":
                problems += check_public(path)
    for problem in problems:
        print(problem.replace(f"{ROOT}/", ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
