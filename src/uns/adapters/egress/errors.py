"""
Why a request brought no answer. Every message is fit to be stored: a host, and our own words.
"""

from __future__ import annotations

from typing import ClassVar


class EgressError(Exception):
    """
    No answer came.
    """

    retryable: ClassVar[bool]


class Refused(EgressError):
    """
    The request was not sent, and will not be while URL and settings stay what they are.
    """

    retryable = False


class Failed(EgressError):
    """
    The network, or the other side, let us down. The request may have arrived all the same.
    """

    retryable = True
