"""
Values that tear at JSON, and requests with one of them in the place of a field.
"""

from __future__ import annotations

import json

from kit.web import a_body

FIELDS = [*a_body(), "irreversible", "idempotency_key", "dedup_key", "correlation_id", "delivery_mode",
          "require_ack", "priority", "metadata"]  # fmt: skip

# What stands for a value, as bytes of JSON or of what is none.
VALUES = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"9" * 400,
    b"9" * 5000,
    b"-0",
    b"1e400000",
    b'"\\ud83d"',
    b'"\\udc00\\ud800"',
    b'"\\u0000"',
    b'"\x00"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xc0\x80"',
    b'"a\\u000ab"',
    b'"\\u202e"',
    b"[]",
    b"{}",
    b"null",
    b"true",
    b'""',
    b'"' + b"x" * 70_000 + b'"',
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b'{"a":NaN}',
    b'{"a":"\\ud83d"}',
    b'{"\\ud83d":1}',
    b'{"\\u0000":1}',
    b'{"a":1,"a":2}',
    b"[" + b"1," * 30_000 + b"1]",
    b"//",
    b"'x'",
    b"",
]


def with_value(field: str, value: bytes) -> bytes:
    """
    A request that is right but for one field.
    """
    rest = json.dumps({name: given for name, given in a_body().items() if name != field})
    return rest.encode()[:-1] + b', "%s": %s}' % (field.encode(), value)
