"""C++ read as far as mutation needs: code without comments, calls, the function around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#[^\n]*',
    re.DOTALL | re.MULTILINE,
)
_OPENING = {")": "(", "]": "["}
_NAME = re.compile(r"[A-Za-z0-9_]")


def code_of(text: str) -> str:
    """The text with comments, strings and preprocessor lines blanked, every offset kept."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


@dataclass(frozen=True)
class Call:
    """`object.method(arguments)`, by offsets into the text."""

    start: int  # of the object's expression
    end: int  # behind the closing parenthesis
    word: str  # last name of the object: the atomic's
    method: str
    arguments: list[tuple[int, int]]


def closing(code: str, at: int) -> int:
    """Offset of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"nothing closes the bracket at offset {at}")


def object_start(code: str, end: int) -> int:
    """Where the postfix expression begins that ends at `end`, e.g. `slots[i & mask].sequence`."""
    i = end
    while i > 0:
        c = code[i - 1]
        if _NAME.match(c) or c == ".":
            i -= 1
        elif code[i - 2 : i] in ("->", "::"):
            i -= 2
        elif c in _OPENING:
            depth = 0
            while True:
                i -= 1
                depth += (code[i] in ")]") - (code[i] in "([")
                if depth == 0:
                    break
        elif c.isspace() and (code[i] == "." or code[i : i + 2] == "->"):  # on a line of its own
            i -= 1
            while i > 0 and code[i - 1].isspace():
                i -= 1
        else:
            break
    return i


def calls(code: str, methods: str) -> list[Call]:
    """Every call of a method whose name matches."""
    found = []
    for match in re.finditer(rf"(?:\.|->)({methods})\s*(\()", code):
        end = closing(code, match.start(2))
        arguments = []
        depth, begin = 0, match.end(2)
        for i in range(match.end(2), end + 1):
            if (code[i] == "," and depth == 0) or i == end:
                arguments.append((begin, i))
                begin = i + 1
            depth += (code[i] in "([{<") - (code[i] in ")]}>" and code[i - 1] != "-")
        start = object_start(code, match.start())
        word = re.findall(r"\w+", re.sub(r"\[[^][]*\]", "", code[start : match.start()]))
        found.append(Call(start, end + 1, word[-1] if word else "", match[1], arguments))
    return found


def functions(code: str) -> list[tuple[int, int, str]]:
    """(first offset, last offset, name) of every function's body."""
    found = []
    stack: list[tuple[str, int]] = []  # (name of the function, or "", offset)
    begin = 0
    for i, c in enumerate(code):
        if c == "{":
            header = code[begin:i]
            inside = any(name for name, _ in stack)
            name = "" if inside else _function_of(header)
            stack.append((name, i))
        elif c == "}" and stack:
            name, start = stack.pop()
            if name:
                found.append((start, i, name))
        if c in "{};":
            begin = i + 1
    return found


def _function_of(header: str) -> str:
    header = re.sub(r"^\s*(public|private|protected):", "", header)
    while re.match(r"\s*template\s*<", header):
        depth = 0
        for i in range(header.index("<"), len(header)):
            depth += (header[i] == "<") - (header[i] == ">")
            if depth == 0:
                break
        header = header[i + 1 :]
    if re.match(r"\s*(namespace|class|struct|enum|union)\b", header) or "(" not in header:
        return ""
    name = re.search(
        r"(operator\s*\(\)|operator\s*\S+?|~?\w+)\s*\(",
        re.sub(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", "", header),
    )
    return name[1] if name else ""


def function_at(bodies: list[tuple[int, int, str]], offset: int) -> str:
    around = [(start, name) for start, end, name in bodies if start <= offset <= end]
    return max(around)[1] if around else ""
