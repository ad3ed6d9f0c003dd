"""A scratch copy of the sources that holds every mutant at once. Which of them is active is asked
for at run time (MGI_MUTANT, its number), so that one build serves all of them. An order is changed
by choosing between two calls, each with its order as a constant: compilers know no others."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

from .sites import Mutant

COPIED = ("include", "src", "tests", "bench", "cmake", "CMakeLists.txt")
SWITCH = "include/mgi/device/mutation.hpp"
SWITCH_TEXT = """#pragma once

#include <cstdlib>

namespace mgi::mutation {

inline int const active =
    std::getenv("MGI_MUTANT") == nullptr ? 0 : std::atoi(std::getenv("MGI_MUTANT"));

inline bool is(int mutant) { return active == mutant; }

}  // namespace mgi::mutation
"""


def write(root: Path, tree: Path, numbered: dict[int, Mutant]) -> None:
    """Brings `tree` up to date. Files that stay as they were keep their time: little is built."""
    by_file: dict[str, dict[int, Mutant]] = defaultdict(dict)
    for number, mutant in numbered.items():
        by_file[mutant.file][number] = mutant
    wanted = {SWITCH: SWITCH_TEXT}
    for top in COPIED:
        path = root / top
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file():
                name = str(file.relative_to(root))
                text = file.read_bytes().decode(errors="surrogateescape")
                wanted[name] = mutated(text, by_file[name]) if name in by_file else text
    for old in tree.rglob("*") if tree.exists() else ():
        if old.is_file() and str(old.relative_to(tree)) not in wanted:
            old.unlink()
    for name, text in wanted.items():
        file = tree / name
        data = text.encode(errors="surrogateescape")
        if file.exists() and file.read_bytes() == data:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    environment = tree / ".venv"  # where the build looks for libcu++
    if (root / ".venv").exists() and not environment.exists():
        environment.symlink_to((root / ".venv").resolve())


def remove(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)


def mutated(text: str, mutants: dict[int, Mutant]) -> str:
    """The file with all of its mutants, each behind its condition."""
    replaced: dict[tuple[int, int], str] = {}
    for number, mutant in mutants.items():
        condition = f"::mgi::mutation::is({number})"
        for start, end, new in mutant.changes:
            start, end, new = _trimmed(text, start, end, new)
            before = replaced.get((start, end), text[start:end])
            if (start, end) in replaced and "{else}" not in new:
                raise SystemExit(f"{mutant.file}: two edits of one place: {mutant.name}")
            replaced[start, end] = new.replace("{is}", condition).replace("{else}", before)
    behind = len(text)
    for (start, end), new in sorted(replaced.items(), reverse=True):
        if end > behind:
            raise SystemExit(f"mutants overlap at offset {start} of a file: {text[start:end]}")
        text = text[:start] + new + text[end:]
        behind = start
    return _with_switch(text)


def _trimmed(text: str, start: int, end: int, new: str) -> tuple[int, int, str]:
    """An edit without what it leaves alone, so that edits of neighbours do not meet."""
    if "{else}" in new:
        return start, end, new
    old = text[start:end]
    tail = 0
    while tail < min(len(old), len(new)) and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    return start + head, start + len(old), new[head:]


def _with_switch(text: str) -> str:
    include = "#include <mgi/device/mutation.hpp>\n"
    pragma = "#pragma once\n"
    if pragma in text:
        return text.replace(pragma, pragma + include, 1)
    return include + text
