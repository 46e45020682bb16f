"""
What SQLite and PostgreSQL spell differently, so that a statement is written once.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import UserDefinedType

ONLY_POSTGRESQL = {"dialect": "postgresql"}
"""The ``info`` of a column that SQLite does not have."""


class one_of(FunctionElement[Any]):  # noqa: N801 - reads as a function
    """
    Whether a column is one of a list, which is one parameter: a JSON text.
    """

    type = sa.types.NULLTYPE  # a condition by itself; SQLite would compare a Boolean with 1
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        super().__init__(column, sa.bindparam(name, type_=sa.Text))


class hexadecimal(FunctionElement[str]):  # noqa: N801 - reads as a function
    """
    A whole number in six hexadecimal digits.
    """

    type = sa.Text()
    inherit_cache = True


class by_bytes(FunctionElement[str]):  # noqa: N801 - reads as a function
    """
    A text that stands beside columns which are compared byte by byte, as SQLite compares all.
    """

    type = sa.String()
    inherit_cache = True


class xid8(UserDefinedType[int]):  # noqa: N801 - the type's own name
    """
    The id of a transaction; PostgreSQL only.
    """

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


def text(length: int) -> sa.String:
    """
    A short text that is compared byte by byte, whatever the language of the database.
    """
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


@compiles(one_of)
def _one_of(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({listed}))"  # noqa: S608 - of our own parts


@compiles(one_of, "postgresql")
def _one_of_postgresql(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    # An array is made once; a subquery to join with would be planned anew for every table size.
    column, listed = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} = ANY (ARRAY(SELECT json_array_elements_text({listed}::json)))"


@compiles(hexadecimal)
def _hexadecimal(element: hexadecimal, compiler: SQLCompiler, **options: Any) -> str:
    return f"printf('%06x', {compiler.process(element.clauses, **options)})"


@compiles(hexadecimal, "postgresql")
def _hexadecimal_postgresql(element: hexadecimal, compiler: SQLCompiler, **options: Any) -> str:
    return f"lpad(to_hex({compiler.process(element.clauses, **options)}), 6, '0')"


@compiles(by_bytes)
def _by_bytes(element: by_bytes, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(by_bytes, "postgresql")
def _by_bytes_postgresql(element: by_bytes, compiler: SQLCompiler, **options: Any) -> str:
    return f'{compiler.process(element.clauses, **options)} COLLATE "C"'


@compiles(CreateColumn, "sqlite")
def _create_column(element: CreateColumn, compiler: DDLCompiler, **options: Any) -> str | None:
    if element.element.info == ONLY_POSTGRESQL:
        return None
    made: str = compiler.visit_create_column(element, **options)  # type: ignore[no-untyped-call]
    return made
