"""
A Litestar application that takes a body and answers: the least that an HTTP service can be.
"""

from litestar import Litestar, get, post
from litestar.params import RawBody


@get("/health")
async def health() -> dict[str, str]:
    return {}


@post("/", status_code=202)
async def empty(body: RawBody) -> dict[str, str]:
    return {}


app = Litestar([health, empty], logging_config=None, openapi_config=None)
