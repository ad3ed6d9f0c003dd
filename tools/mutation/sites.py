"""What can be mutated: every memory order that is not relaxed, every group barrier, the edits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import source
from .edits import EDITS

FILES = ("include/mgi/device/*.hpp", "src/mover/*.?pp", "src/runtime/*.?pp", "src/memory/*.?pp")
METHODS = r"load|store|exchange|fetch_\w+|compare_exchange_\w+|wait"
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
_ORDER = re.compile(r"^((?:\w+::)*(?:memory_order_)?)(acquire|release|acq_rel|seq_cst)$")
# No host compiler sees that file; threads of a warp are one thread on a CPU: racecheck is for both.
ONLY_ON_GPUS = ("include/mgi/device/c_api.hpp",)
OF_WARPS = ("threads.sync()",)
_BARRIER = re.compile(r"\b(?:\w+(?:\.|->))+(?:sync|arrive_and_wait)\(\)(?=;)")


@dataclass(frozen=True)
class Mutant:
    name: str  # file:function:operation:ordinal:change
    file: str
    line: int
    kind: str  # order, barrier, edit
    check: str  # which program should notice
    # (start, end, text) in the file; `{is}` stands for the condition, `{else}` for what was there.
    changes: tuple[tuple[int, int, str], ...] = field(repr=False, default=())


def weaker(order: str, method: str, on_failure: bool) -> list[str]:
    """One step down, for this kind of access."""
    if order == "seq_cst":
        if method == "load" or on_failure:
            return ["acquire"]
        return ["release"] if method == "store" else ["acq_rel"]
    if order == "acq_rel":
        return ["acquire", "release"]
    return ["relaxed"]


def check_of(file: str, kind: str) -> str:
    """Barriers and the words below them are threads' business; the protocols are Relacy's."""
    if file.startswith(("src/runtime", "src/memory")):
        return "runtime"
    if kind == "barrier" or file.endswith("device/barrier.hpp"):
        return "device"
    return "relacy"


def short(file: str) -> str:
    return file.removeprefix("include/mgi/").removeprefix("src/")


def find(root: Path) -> list[Mutant]:
    mutants: list[Mutant] = []
    for pattern in FILES:
        for path in sorted(root.glob(pattern)):
            file = str(path.relative_to(root))
            if file in ONLY_ON_GPUS:
                continue
            text = path.read_text()
            code = source.code_of(text)
            bodies = source.functions(code)
            mutants += _orders(file, text, code, bodies)
            mutants += _barriers(file, code, bodies)
            mutants += _edits(file, text)
    return mutants


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _orders(file: str, text: str, code: str, bodies) -> Iterable[Mutant]:
    seen: Counter[str] = Counter()
    for call in source.calls(code, METHODS):
        function = source.function_at(bodies, call.start)
        orders = [
            (begin, end, match, position == 3)
            for position, (begin, end) in enumerate(call.arguments)
            if (match := _ORDER.match(code[begin:end].strip()))
        ]
        if not orders:
            continue
        operation = f"{short(file)}:{function}:{call.word}.{call.method}"
        seen[operation] += 1
        for begin, end, match, on_failure in orders:
            for order in weaker(match[2], call.method, on_failure):
                lead = code[begin:end][: len(code[begin:end]) - len(code[begin:end].lstrip())]
                changed = text[call.start : begin] + lead + match[1] + order + text[end : call.end]
                part = " on failure" if on_failure else ""
                yield Mutant(
                    f"{operation}:{seen[operation]}:{match[2]}->{order}{part}",
                    file,
                    _line(text, call.start),
                    "order",
                    check_of(file, "order"),
                    ((call.start, call.end, "({is} ? " + changed + " : {else})"),),
                )


def _barriers(file: str, code: str, bodies) -> Iterable[Mutant]:
    seen: Counter[str] = Counter()
    for match in _BARRIER.finditer(code):
        if match[0] in OF_WARPS:
            continue
        operation = f"{short(file)}:{source.function_at(bodies, match.start())}:{match[0]}"
        seen[operation] += 1
        yield Mutant(
            f"{operation}:{seen[operation]}:removed",
            file,
            _line(code, match.start()),
            "barrier",
            check_of(file, "barrier"),
            ((match.start(), match.end(), "({is} ? void() : {else})"),),
        )


def _edits(file: str, text: str) -> Iterable[Mutant]:
    for edit in EDITS:
        if edit.file != file:
            continue
        changes = []
        for old, new in edit.replacements:
            if text.count(old) != 1:
                raise SystemExit(
                    f"tools/mutation/edits.py: '{edit.what}' no longer fits {file}: "
                    f"{text.count(old)} times\n{old}"
                )
            at = text.index(old)
            changes.append((at, at + len(old), new))
        yield Mutant(
            f"{short(file)}:{edit.function}:{edit.what}:1:swapped",
            file,
            _line(text, changes[0][0]),
            "edit",
            check_of(file, "edit"),
            tuple(changes),
        )
