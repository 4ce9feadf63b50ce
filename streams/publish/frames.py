"""Frames of the spool: one event each, so that a torn tail is told from a whole event.

A frame is a head and then key and value: length of the value (u64), length of the key (u16), and crc32 over both
lengths, key and value (u32), all little-endian.
"""

from __future__ import annotations

import struct
import zlib

MAX_KEY_BYTES = 0xFFFF
HEAD = struct.Struct("<QHI")
_LENGTHS = struct.Struct("<QH")


def frame(key: bytes, value: bytes) -> bytes:
    """The frame of one event. Raises ValueError when the key is longer than 65,535 bytes."""
    if len(key) > MAX_KEY_BYTES:
        raise ValueError(f"key has {len(key)} bytes; {MAX_KEY_BYTES} are the most")
    return b"".join((HEAD.pack(len(value), len(key), _checksum(key, value)), key, value))


def parse_frames(data: bytes, base: int = 0) -> tuple[list[tuple[int, bytes, bytes]], int]:
    """Whole frames at the start of `data`, as (offset after the frame, key, value), and the bytes that the next one
    needs.

    `base` is added to the offsets. The second value is 0 when all of `data` was frames, the full size of the first
    frame that `data` cuts off (the header's size when even that is cut), and -1 when that frame's crc is wrong.
    """
    entries: list[tuple[int, bytes, bytes]] = []
    place, end = 0, len(data)
    while place < end:
        if end - place < HEAD.size:
            return entries, HEAD.size
        value_bytes, key_bytes, checksum = HEAD.unpack_from(data, place)
        middle = place + HEAD.size + key_bytes
        after = middle + value_bytes
        if after > end:
            return entries, after - place
        key, value = data[place + HEAD.size : middle], data[middle:after]
        if _checksum(key, value) != checksum:
            return entries, -1
        entries.append((base + after, key, value))
        place = after
    return entries, 0


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(_LENGTHS.pack(len(value), len(key)))))
