"""docs/mutation.md: the mutants that are reviewed as equivalent, and the scope of every word."""

from __future__ import annotations

import re
from pathlib import Path

from . import source

DOCUMENT = "docs/mutation.md"
_WORD = re.compile(r"A::template (Device|System)<\w+>\s*(?:\*\s*)?(\w+)")
_RECORD = re.compile(r"(?<!<)(?<!, )\b(?:struct|class)\s+(?:alignas\(\d+\)\s*)?(\w+)[^;{]*\{")


def _rows(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    if not section:
        return []
    lines = [line for line in section[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def equivalent(root: Path) -> dict[str, str]:
    """Mutant's name: why it changes nothing."""
    rows = _rows((root / DOCUMENT).read_text(), "Equivalent mutants")
    return {row[0].strip("`"): row[1] for row in rows}


def words(root: Path) -> dict[str, str]:
    """Struct::word: its scope, of every atomic of the data plane."""
    found = {}
    for path in sorted((root / "include/mgi/device").glob("*.hpp")):
        code = source.code_of(path.read_text())
        records = [
            (match.start(), source.closing(code, match.end() - 1), match[1])
            for match in _RECORD.finditer(code)
        ]
        for match in _WORD.finditer(code):
            around = [(start, name) for start, end, name in records if start < match.start() < end]
            found["::".join([name for _, name in sorted(around)] + [match[2]])] = match[1]
    return found


def problems_of_scopes(root: Path) -> list[str]:
    """Where the reviewed table and the code differ."""
    rows = _rows((root / DOCUMENT).read_text(), "Scopes")
    reviewed = {row[0].strip("`"): row[1] for row in rows}
    code = words(root)
    problems = [f"{word} is not in the table of scopes" for word in code if word not in reviewed]
    for word, scope in reviewed.items():
        if word not in code:
            problems.append(f"{word} in the table of scopes is no word of the data plane")
        elif code[word] != scope:
            problems.append(f"{word} is {code[word]}, reviewed as {scope}")
    return [f"{DOCUMENT}: {problem}" for problem in problems]
