"""
Many channels, one outcome: what ``require`` asks for and what the calls came to.
"""

from __future__ import annotations

from msgspec import Struct

from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Outcome
from uns.ports.vocabulary import Require

NO_CHANNELS = "its stored settings cannot be read"


class Call(Struct, frozen=True, gc=False):
    """
    One channel call that ended (or was given up), seen at ``observed_at`` by the caller's clock.
    """

    channel: str
    result: ChannelResult
    observed_at: float


class Tally(Struct, frozen=True, gc=False):
    """
    The channels of a notification, the successes on record, and the calls of this attempt.
    """

    plan: ChannelPlan
    on_record: frozenset[str]
    calls: tuple[Call, ...] = ()

    @property
    def succeeded(self) -> frozenset[str]:
        return self.on_record.union(call.channel for call in self.calls if call.result.success)

    @property
    def satisfied(self) -> bool:
        """
        Whether ``require`` is met.

        ANY: one channel has it. ALL: every primary has it, or no primary and one fallback.
        """
        return suffices(self.plan, self.succeeded)

    @property
    def hopeless(self) -> bool:
        """
        Whether no later attempt could meet ``require``: what it needs was refused for good.
        """
        succeeded = self.succeeded
        refused = {call.channel for call in self.calls if not (call.result.success or call.result.retryable)}
        primaries = [c in succeeded or c not in refused for c in self.plan.primary]
        primaries_may = all(primaries) if self.plan.require is Require.ALL else any(primaries)
        fallback_may = succeeded.isdisjoint(self.plan.primary) and any(
            c not in refused for c in self.plan.fallback
        )
        return not (primaries_may or fallback_may)

    @property
    def paced(self) -> bool:
        """
        Whether every call of this attempt was paced by its provider.
        """
        return bool(self.calls) and all(_paced(call.result) for call in self.calls)

    @property
    def retry_after(self) -> float | None:
        """
        The longest wait, in seconds, that a provider asked for.
        """
        waits = [call.result.retry_after for call in self.calls if _paced(call.result)]
        return max((w for w in waits if w is not None), default=None)

    def to_call(self) -> tuple[str, ...]:
        """
        The primaries that do not have the notification yet.
        """
        return tuple(c for c in self.plan.primary if c not in self.on_record)

    def fallbacks(self) -> tuple[str, ...]:
        """
        The fallbacks to call now: none once a primary has succeeded.
        """
        succeeded = self.succeeded
        if not succeeded.isdisjoint(self.plan.primary):
            return ()
        return tuple(c for c in self.plan.fallback if c not in succeeded)

    def on_top_of(self, before: Outcome, error: str | None) -> Outcome:
        """
        What ``before`` says, with the successes on record, for a settlement that called nobody.

        ``error``, when given, replaces its own.
        """
        order, succeeded = self.plan.primary + self.plan.fallback, self.succeeded
        return Outcome(
            channels_attempted=tuple(c for c in order if c in before.channels_attempted or c in succeeded),
            channels_succeeded=tuple(c for c in order if c in succeeded),
            channels_failed=tuple(c for c in before.channels_failed if c not in succeeded),
            error_message=error or before.error_message,
        )

    def outcome(self) -> Outcome:
        """
        The stored form.
        """
        succeeded = self.succeeded
        order = self.plan.primary + self.plan.fallback
        called = {call.channel for call in self.calls}
        failures = {call.channel: call.result.error for call in self.calls if not call.result.success}
        texts = [f"{channel}: {text}" for channel, text in failures.items() if text]
        if not order:
            texts = [NO_CHANNELS]
        return Outcome(
            channels_attempted=tuple(c for c in order if c in called or c in succeeded),
            channels_succeeded=tuple(c for c in order if c in succeeded),
            channels_failed=tuple(c for c in order if c in failures and c not in succeeded),
            error_message="; ".join(texts) or None,
        )


def suffices(plan: ChannelPlan, succeeded: frozenset[str]) -> bool:
    """
    Whether these successes meet ``plan.require``.
    """
    primaries = sum(c in succeeded for c in plan.primary)
    if plan.require is Require.ALL and primaries:
        return primaries == len(plan.primary)
    return bool(primaries) or any(c in succeeded for c in plan.fallback)


def _paced(result: ChannelResult) -> bool:
    return not result.success and result.retry_after is not None
