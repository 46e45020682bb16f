"""
Names that handlers share.
"""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from uns.entrypoints.http.service import HttpService
from uns.ports.identity import Identity

Service = NamedDependency[SkipValidation[HttpService]]
Caller = Request[Identity, Any, Any]
