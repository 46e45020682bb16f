"""
The names that users import, and what importing them costs.
"""

import inspect
import subprocess
import sys
import time
from importlib import import_module

import pytest
from msgspec.structs import astuple

import uns

DOCUMENTED = [
    ("uns", "Client"),
    ("uns", "Runtime"),
    ("uns", "SignalClient"),
    ("uns", "SimpleAdapterRegistry"),
    ("uns", "ChannelMessage"),
    ("uns", "ChannelResult"),
    ("uns", "SendNotificationRequest"),
    ("uns.runtime", "Conflict"),
    ("uns.runtime", "Runtime"),
    ("uns.responses", "SendNotificationRequest"),
    ("uns.responses", "AutonomyContextRequest"),
    ("uns.responses", "SendNotificationResponse"),
    ("uns.responses", "AckResponse"),
]


@pytest.mark.parametrize(("module", "name"), DOCUMENTED)
def test_documented_names_are_there(module, name):
    """
    Every import path that the documentation names works.
    """
    assert isinstance(getattr(import_module(module), name), type)


@pytest.mark.parametrize("name", uns.__all__)
def test_every_public_name_loads(name):
    """
    What ``uns`` says it has, it has.
    """
    assert name == getattr(uns, name).__name__


@pytest.mark.parametrize("module", ["uns.runtime", "uns.responses"])
def test_an_alias_is_the_thing_itself(module):
    """
    Aliases re-export: the same class under each of its names.
    """
    alias = import_module(module)

    assert {name: getattr(uns, name) for name in alias.__all__ if name in uns.__all__} == {
        name: getattr(alias, name) for name in alias.__all__ if name in uns.__all__
    }


@pytest.mark.parametrize("module", ["uns.runtime", "uns.responses"])
def test_an_alias_is_a_few_lines(module):
    """
    Alias modules hold nothing of their own.
    """
    source = import_module(module).__file__

    with open(source) as lines:
        assert sum(1 for _ in lines) <= 10


def test_star_import_gives_the_public_names():
    """
    ``from uns import *`` gives what ``uns.__all__`` lists.
    """
    names = {}
    exec("from uns import *", names)

    assert set(uns.__all__) == names.keys() - {"__builtins__"}


def test_an_unknown_name_is_an_attribute_error():
    """
    A misspelt name is told as Python tells it.
    """
    with pytest.raises(AttributeError, match="module 'uns' has no attribute 'Runtimes'"):
        uns.Runtimes  # noqa: B018
    with pytest.raises(ImportError):
        exec("from uns import Runtimes")


SLIGHT = [
    ("import uns", {"msgspec", "sqlalchemy", "asyncio"}),
    ("from uns import ChannelResult, SendNotificationRequest", {"sqlalchemy", "asyncio", "ruamel.yaml"}),
    ("from uns import Runtime", {"litestar", "alembic", "uvicorn", "httpx2"}),
]


@pytest.mark.parametrize(("statement", "unloaded"), SLIGHT)
def test_names_are_loaded_when_first_used(statement, unloaded):
    """
    Importing one name does not load what only other names need.
    """
    script = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert set() == unloaded & set(loaded.stdout.split())


def test_errors_are_what_the_documentation_says():
    """
    ``NotFound`` is a ``KeyError``, ``Rejected`` a ``ValueError``, and all are ``UnsError`` with a code.
    """
    assert issubclass(uns.NotFound, KeyError)
    assert issubclass(uns.Rejected, ValueError)
    for name in ("Conflict", "Forbidden", "NotFound", "Rejected", "StoreUnavailable"):
        error = getattr(uns, name)
        assert issubclass(error, uns.UnsError)
        assert error.code != uns.UnsError.code
        assert str(error())


def test_a_result_says_success_and_nothing_more_by_default():
    """
    Only success must be given; a failure may be tried again unless it says otherwise.
    """
    result = uns.ChannelResult(False)

    assert (False, None, None, {}, True, None) == astuple(result)
    assert "m" == uns.ChannelResult(True, "m").message_id
    with pytest.raises(AttributeError):
        result.success = True


FIELDS = [
    (uns.ChannelMessage, "notification target idempotency_token attempt deadline"),
    (uns.ChannelResult, "success message_id error metadata retryable retry_after"),
    (
        uns.SendNotificationRequest,
        "notification_type intent title message source autonomy_context irreversible idempotency_key"
        " dedup_key correlation_id delivery_mode require_ack priority metadata",
    ),
    (
        uns.AutonomyContextRequest,
        "autonomy_mode agent_id plan_id decision_snapshot_id execution_snapshot_id skip_snapshot_id",
    ),
]


@pytest.mark.parametrize(("struct", "names"), FIELDS)
def test_structs_have_the_documented_fields(struct, names):
    """
    The fields of what users build and are handed, in their order.
    """
    assert names.split() == list(struct.__struct_fields__)


PARAMETERS = {
    "database_url": inspect.Parameter.empty,
    "adapters": None,
    "create_tables": False,
    "max_attempts": 3,
    "retry_seconds": 1,
    "clock": time.time,
    "callback": None,
}


def test_a_runtime_has_the_documented_parameters():
    """
    All but the URL are given by keyword, and have the documented defaults.
    """
    parameters = inspect.signature(uns.Runtime).parameters

    assert PARAMETERS == {name: parameter.default for name, parameter in parameters.items()}
    assert {inspect.Parameter.KEYWORD_ONLY} == {
        parameter.kind for name, parameter in parameters.items() if name != "database_url"
    }


METHODS = {
    "accept": "request principal",
    "send": "request principal",
    "simulate": "request principal",
    "dispatch": "notification_id",
    "acknowledge": "notification_id actor dismiss metadata",
    "expire": "now",
    "replay": "notification_id actor",
    "resolve_failure": "notification_id actor",
    "dead_letters": "",
    "deliver_callbacks": "",
    "run_once": "",
    "get": "notification_id",
    "events": "notification_id",
    "response": "notification_id",
    "wait": "notification_id timeout",
    "close": "",
}


@pytest.mark.parametrize(("method", "names"), METHODS.items())
def test_its_methods_take_the_documented_arguments(method, names):
    """
    Each documented method takes its documented arguments, by their names.
    """
    _, *taken = inspect.signature(getattr(uns.Runtime, method)).parameters

    assert names.split() == taken
