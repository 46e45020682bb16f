"""
Other processes: forked from a server that has the library loaded, so that each starts at once.

What runs in them must be importable: see ``kit.children``.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

PATIENCE_SECONDS = 30.0

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["uns.entrypoints.sdk", "uns.entrypoints.http.app"])


class Child:
    """
    A function at work in another process.
    """

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._answers, answer = _server.Pipe(duplex=False)
        self._process = _server.Process(target=_run, args=(answer, work, arguments), daemon=True)
        self._process.start()
        answer.close()

    def result(self) -> Any:
        """
        What the function returned.

        Raises:
            AssertionError: it raised, or its process died.
        """
        answer = self._answer()
        self.end()
        assert isinstance(answer, _Returned), answer or f"exit code {self._process.exitcode}"
        return answer.value

    def died_by_its_own_hand(self) -> bool:
        """
        Whether the process was killed before the function returned.
        """
        answer = self._answer()
        self.end()
        assert answer is None, answer
        return self._process.exitcode == -signal.SIGKILL

    def kill(self) -> None:
        """
        End it as a machine does that loses its power; its memory, that is, not its disk.
        """
        self._process.kill()
        self.end()

    def end(self) -> None:
        self._process.join(PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._answers.close()

    def _answer(self) -> Any:
        try:
            return self._answers.recv() if self._answers.poll(PATIENCE_SECONDS) else "still at work"
        except EOFError:
            return None


class _Returned:
    def __init__(self, value: Any) -> None:
        self.value = value


def result_of(work: Callable[..., Any], *arguments: Any) -> Any:
    """
    What ``work(*arguments)`` returns in a process of its own.
    """
    return Child(work, *arguments).result()


def dies_in(work: Callable[..., Any], *arguments: Any) -> bool:
    """
    Whether ``work(*arguments)`` kills the process it is alone in.
    """
    return Child(work, *arguments).died_by_its_own_hand()


@contextmanager
def children(work: Callable[..., Any], *arguments: tuple[Any, ...]) -> Iterator[list[Child]]:
    """
    One process for each tuple of arguments, side by side.
    """
    started = [Child(work, *each) for each in arguments]
    try:
        yield started
    finally:
        for child in started:
            child.end()


def _run(answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer.send(_Returned(work(*arguments)))
    except BaseException:
        answer.send(traceback.format_exc())
