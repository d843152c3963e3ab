"""Files spoiled on purpose, reproducibly: the same `random.Random` gives the same file."""

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

HUGE = (0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = ("-1", "0", "1e999", "-1e999", "1e-999", "nan", "NaN", "Infinity", "-Infinity", "9" * 30, "9" * 5000, "1_0",
           "0x10", "1e5", "99999999999", "-0.0", "true", "null", '""', "[]", "{}", "1.5")  # fmt: skip
ODD = ("\x00", "\u202e",
        "\ud7ff", "\ufeff", "\u2028", "\x85", "\x1b[31m", "\U0001f4a3", "é", "\r", "\n", "\t", "'", '"',
       "\\", "../../etc/passwd", "/", "%s%n", "{0}", "\u0660")  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1, 2**70, -(2**70), 10**400, 1e308, -1e308, float("nan"),
                           float("inf"), -0.0, "", "x", "\x00", "\x1b[31m", "nan", "../../x", [], {}, [[]], [None],
                           {"": None}, ["x"] * 3, [1, 2], {"a": {"b": []}}, "é" * 300, [1e300] * 5, 1e9, 3)  # fmt: skip


def mutated(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """`data` with one to four faults, of those that fit its kind; `others` are files to take parts from."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = chance.choice(_fitting(data))(data, chance, others)
    return data


def _fitting(data: bytes) -> list[Callable[..., bytes]]:
    raw = [flip, flip, truncate, splice, length_field, repeat, delete, insert, fill]
    if data[:2] == b"PK":
        return [*raw, inside_zip, inside_zip, inside_zip, rename_in_zip]
    if _is_text(data[:4000]):
        return [
            *raw[:4],
            number,
            number,
            number,
            odd,
            nest,
            swap_lines,
            *([json_node] * 5 if data[:1] in b"[{" else []),
        ]
    if data[8:9] == b"{":
        return [*raw, safetensors_header, safetensors_header, safetensors_header]
    return raw


def _is_text(data: bytes) -> bool:
    try:
        return data.decode("utf-8", errors="strict").isprintable() or b"\n" in data[:400]
    except UnicodeDecodeError:
        return False


# ---------------------------------------------------------------------------------------------------------- any bytes


def flip(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    spoiled = bytearray(data or b"x")
    for _ in range(chance.choice((1, 1, 3, 30))):
        spoiled[_place(spoiled, chance)] ^= 1 << chance.randrange(8)
    return bytes(spoiled)


def truncate(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def splice(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    other = chance.choice(others)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def length_field(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """Some bytes become an extreme whole number, as if they were a length, a count or an offset."""
    size = chance.choice((1, 2, 4, 8))
    value = (chance.choice(HUGE) % 2 ** (8 * size)).to_bytes(size, chance.choice(("little", "big")))
    place = _place(data, chance)
    return data[:place] + value + data[place + size :]


def repeat(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    a, b = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b] * chance.choice((1, 2, 20)) + data[b:]


def delete(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    a = _place(data, chance)
    return data[:a] + data[a + chance.choice((1, 2, 4, 8, 100)) :]


def insert(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    a = _place(data, chance)
    return data[:a] + chance.randbytes(chance.choice((1, 4, 100))) + data[a:]


def fill(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """A run of equal bytes: zeros, NaNs (all ones) or spaces."""
    a, size = _place(data, chance), chance.choice((1, 4, 8, 64))
    return data[:a] + bytes([chance.choice((0, 255, 127, 32))]) * size + data[a + size :]


def _place(data: bytes | bytearray, chance: random.Random) -> int:
    """More often near the beginning and the end, where headers and directories are."""
    last = max(len(data) - 1, 0)
    where = chance.random()
    if where < 0.4:
        return chance.randrange(min(last, 200) + 1)
    return last - chance.randrange(min(last, 200) + 1) if where < 0.6 else chance.randrange(last + 1)


# --------------------------------------------------------------------------------------------------------------- text


def number(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """Another number in the place of one."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?|true|false|null", data))
    if not found:
        return flip(data, chance, others)
    match = chance.choice(found)
    return data[: match.start()] + chance.choice(NUMBERS).encode() + data[match.end() :]


def odd(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    a = _place(data, chance)
    return data[:a] + chance.choice(ODD).encode("utf-8", errors="surrogatepass") + data[a:]


def nest(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """Something that opens and opens, and perhaps closes."""
    depth = chance.choice((50, 2000, 100_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}"), (b"a.", b""), (b"(", b")")))
    a = _place(data, chance)
    inner = opening * depth + b"1" + closing * depth * chance.randrange(2)
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if found and chance.random() < 0.7:
        match = chance.choice(found)
        return data[: match.start()] + inner + data[match.end() :]
    return data[:a] + inner + data[a:]


def swap_lines(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    i, j = (chance.randrange(len(lines)) for _ in range(2))
    lines[i] = lines[j]
    return b"\n".join(lines)


def json_node(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """One value, somewhere in the tree, replaced, removed, doubled or renamed; the text stays JSON."""
    lines = data.splitlines()
    if len(lines) > 1 and _parsed(lines[0]) is not None:  # a log: one of its lines
        i = chance.randrange(len(lines))
        lines[i] = json_node(lines[i], chance, others)
        return b"\n".join(lines) + b"\n"
    content = _parsed(data)
    if not isinstance(content, dict | list) or not content:
        return number(data, chance, others)
    node: Any = content
    while True:
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        below = node[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.25:
            break
        node = below
    what = chance.randrange(6)
    if what == 0:
        del node[key]
    elif what == 1 and isinstance(node, dict):
        node[chance.choice(("", "x", "é", str(key) + " ", "A" * 500))] = node.pop(key)
    elif what == 2 and isinstance(node, list):
        node.extend(node[:50])
    else:
        node[key] = chance.choice(VALUES)
    return json.dumps(content).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


# --------------------------------------------------------------------------------------------- containers, made anew


def inside_zip(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """One member spoiled and the archive written anew, so that its checksums are right."""
    members = _members(data)
    if not members:
        return flip(data, chance, others)
    name = chance.choice(list(members))
    members[name] = chance.choice((flip, truncate, length_field, repeat, delete, fill, number, odd))(
        members[name], chance, others
    )
    return _zipped(members, chance)


def rename_in_zip(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    members = _members(data)
    if not members:
        return flip(data, chance, others)
    name = chance.choice(list(members))
    renamed = chance.choice(("../../" + name, "/" + name, "A.npy", "b.npy", "", "é" + name, name + "/", "x" * 300))
    if chance.random() < 0.5:
        members[renamed] = members.pop(name)
    else:
        members[renamed] = members[name]
    return _zipped(members, chance)


def _members(data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist() if info.file_size < 2**20}
    except Exception:  # already spoiled
        return {}


def _zipped(members: dict[str, bytes], chance: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name or "empty", (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, content)
    return out.getvalue()


def safetensors_header(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """The JSON in front of the tensors changed, and its length made to fit."""
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        return flip(data, chance, others)
    change = chance.choice((json_node, json_node, number, odd, nest))
    header = change(data[8 : 8 + size], chance, others)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]
