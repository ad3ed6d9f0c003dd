#!/usr/bin/env python3
"""What clang-tidy is to read, a line each: sources of the compile database, and where CMake's unity
build compiles some at a time, the source that has them.

    tools/tidy_units.py COMPILE_COMMANDS.JSON [FILE...]

With FILEs those that have them, else those that have any source of src/, bench/ or examples/.
Fails for one that nothing has, but for peers (bench/peers/programs) whose library is not here, and
what only a library without third parties has (src/control/alone).
"""

import json
import re
import sys
from pathlib import Path


def members(source: Path) -> set[Path]:
    """The files that are compiled with a source of the database."""
    if "/Unity/unity_" not in str(source):
        return {source}
    return {Path(name) for name in re.findall(r'^#include "(/.*)"$', source.read_text(), re.M)}


def main() -> None:
    root = Path.cwd()
    entries = [Path(entry["file"]) for entry in json.loads(Path(sys.argv[1]).read_text())]
    if sys.argv[2:]:
        wanted = {Path(name).resolve() for name in sys.argv[2:]}
    else:
        folders = ("src", "bench", "examples")
        wanted = {file for folder in folders for file in (root / folder).rglob("*.cpp")}
    # Units first: a source may also stand alone, in another program.
    for entry in sorted(set(entries), key=lambda source: ("/Unity/" not in str(source), source)):
        if has := members(entry) & wanted:
            wanted -= has
            print(entry)
    elsewhere = {root / "bench/peers/programs", root / "src/control/alone"}
    if lost := sorted(str(file) for file in wanted if file.parent not in elsewhere):
        sys.exit(f"tidy_units.py: {sys.argv[1]} compiles nowhere: {', '.join(lost)}")


main()
