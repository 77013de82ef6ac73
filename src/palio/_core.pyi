"""The compiled core of Palio; use it through the packages that wrap it."""

import datetime


def decode_body(data: bytes, *, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int) -> tuple[dict[str, str | int | float | bool | datetime.datetime | bytes], str | None, bytes | None]:
    """
    Validate and read the body of a notification: its attributes, content type and payload.
    """

def unpack(data: bytes, depth: int, most: int) -> object:
    """
    Read arrays of plain values, nested at most so deep and with at most so many elements in all.
    """
