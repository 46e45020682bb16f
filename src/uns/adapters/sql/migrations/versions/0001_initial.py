"""
The tables of the first release. Frozen: what changes is a new migration.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from uns.adapters.sql.dialects import xid8

revision = "0001"
down_revision = None


def _text(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_Id = _text(36)
_Digest = _text(64)
_Name = _text(255)
_Word = _text(32)

_DELIVERY = "'PENDING', 'DELIVERED', 'FAILED', 'DEDUPLICATED'"
_RESPONSE = "'PENDING', 'ACKED', 'DISMISSED', 'TIMED_OUT'"
_POLICY = "'ACTIVE', 'PREVIEW', 'DRAFT', 'RETIRED'"


def upgrade() -> None:
    _notifications()
    _notification_indexes()
    _events()
    _dedup()
    _copies()
    _delivery_audits()
    _ack_audits()
    _policy_authority()
    _policy_contents()
    _policies()


def downgrade() -> None:
    for table in (
        "notification_policies",
        "notification_policy_revisions",
        "notification_policy_contents",
        "notification_policy_snapshots",
        "uns_policy_authority",
        "ack_audit_records",
        "notification_audit_records",
        "uns_copies",
        "uns_dedup",
        "uns_events",
        "uns_notifications",
    ):
        op.drop_table(table)


def _notifications() -> None:
    op.create_table(
        "uns_notifications",
        sa.Column("id", _Id, nullable=False),
        sa.Column("key", _Digest, nullable=False),
        sa.Column("fingerprint", _Digest, nullable=False),
        sa.Column("principal", _Name, nullable=False),
        sa.Column("source", _Name, nullable=False),
        sa.Column("notification_type", _Name, nullable=False),
        sa.Column("intent", _Word, nullable=False),
        sa.Column("agent_id", _Id, nullable=False),
        sa.Column("autonomy_mode", _Word, nullable=False),
        sa.Column("priority", _Word, nullable=False),
        sa.Column("delivery_mode", _Word, nullable=False),
        sa.Column("correlation_id", _Name),
        sa.Column("accepted_at", sa.Double, nullable=False),
        sa.Column("notification", sa.Text, nullable=False),
        sa.Column("effective", sa.Text, nullable=False),
        sa.Column("effective_hash", _Digest, nullable=False),
        sa.Column("policy_id", _Name, nullable=False),
        sa.Column("policy_hash", _Digest, nullable=False),
        sa.Column("channels", sa.Text, nullable=False),
        sa.Column("wants_callback", sa.Boolean, nullable=False),
        sa.Column("dedup_key", _Digest),
        sa.Column("escalation_of", _Id),
        sa.Column("status", _Word, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("cycle", sa.Integer, nullable=False),
        sa.Column("cycle_attempts", sa.Integer, nullable=False),
        sa.Column("dedup_owner_id", _Id),
        sa.Column("dedup_generation", sa.Integer),
        sa.Column("dedup_successor_id", _Id),
        sa.Column("next_attempt", sa.Double, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("lease_token", _Id),
        sa.Column("paced_since", sa.Double),
        sa.Column("dead_letter", sa.Boolean, nullable=False),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("delivered_at", sa.Double),
        sa.Column("deadline", sa.Double),
        sa.Column("ack_status", _Word),
        sa.Column("actor", _Name),
        sa.Column("responded_at", sa.Double),
        sa.Column("response_metadata", sa.Text),
        _key("uns_notifications", "id"),
        _states("uns_notifications", "status", _DELIVERY),
        _states("uns_notifications", "ack_status", _RESPONSE),
        sa.UniqueConstraint("key", name=op.f("uq_uns_notifications_key")),
        postgresql_with={"fillfactor": 70},
    )


def _notification_indexes() -> None:
    table = "uns_notifications"
    leads = "status = 'PENDING' AND dedup_owner_id IS NULL"
    _index("ix_uns_due", table, "priority", "next_attempt", where=leads)
    _index("ix_uns_deadline", table, "deadline", where="ack_status = 'PENDING'")
    _index(
        "ix_uns_followers",
        table,
        "dedup_owner_id",
        "accepted_at",
        "id",
        where="dedup_owner_id IS NOT NULL",
    )
    _index("ix_uns_successor", table, "dedup_successor_id", where="dedup_successor_id IS NOT NULL")
    _index("ix_uns_dead_letters", table, "accepted_at", "id", where=_is_true("dead_letter"))
    _index("ix_uns_escalation", table, "escalation_of", where="escalation_of IS NOT NULL")
    _index("ix_uns_correlation", table, "correlation_id", where="correlation_id IS NOT NULL")
    _index("ix_uns_types", table, "notification_type", "source", "accepted_at")


def _events() -> None:
    op.create_table(
        "uns_events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("id", _Id, nullable=False),
        sa.Column("notification_id", _Id, nullable=False),
        sa.Column("kind", _text(50), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("callback_pending", sa.Boolean, nullable=False),
        sa.Column("callback_until", sa.Double, nullable=False),
        sa.Column("callback_token", _Id),
        sa.Column("callback_attempts", sa.Integer, nullable=False),
        sa.Column("callback_error", sa.String(2000)),
        *_transaction(),
        _key("uns_events", "seq"),
        sa.UniqueConstraint("id", name=op.f("uq_uns_events_id")),
    )
    _index("ix_uns_events_notification_id", "uns_events", "notification_id")
    _index("ix_uns_callbacks", "uns_events", "callback_until", "at", "id", where=_is_true("callback_pending"))
    _index("ix_uns_callback_tokens", "uns_events", "callback_token", where="callback_token IS NOT NULL")


def _transaction() -> list[sa.Column[Any]]:
    # Several transactions write at once on PostgreSQL alone, and only there is `seq` not their order.
    if op.get_context().dialect.name == "sqlite":
        return []
    return [sa.Column("xid", xid8, nullable=False, server_default=sa.text("pg_current_xact_id()"))]


def _dedup() -> None:
    op.create_table(
        "uns_dedup",
        sa.Column("key", _Digest, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("owner_id", _Id, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("handed_on", sa.Integer, nullable=False),
        sa.Column("followers", sa.Integer, nullable=False),
        _key("uns_dedup", "key"),
        sqlite_with_rowid=False,
    )


def _copies() -> None:
    op.create_table(
        "uns_copies",
        sa.Column("notification_id", _Id, nullable=False),
        sa.Column("channel", _text(64), nullable=False),
        sa.Column("ref", sa.Text),
        sa.Column("routing", sa.Text),
        sa.Column("state", _Word, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        _key("uns_copies", "notification_id", "channel"),
        sqlite_with_rowid=False,
    )


def _delivery_audits() -> None:
    op.create_table(
        "notification_audit_records",
        sa.Column("id", _Id, nullable=False),
        sa.Column("notification_id", _Id, nullable=False),
        sa.Column("notification_type", _Name, nullable=False),
        sa.Column("status", _Word, nullable=False),
        sa.Column("channels_attempted", sa.Text, nullable=False),
        sa.Column("channels_succeeded", sa.Text, nullable=False),
        sa.Column("channels_failed", sa.Text, nullable=False),
        sa.Column("error_message", sa.Text),
        sa.Column("intent", _Word, nullable=False),
        sa.Column("delivery_mode", _Word, nullable=False),
        sa.Column("autonomy_mode", _Word, nullable=False),
        sa.Column("agent_id", _Id, nullable=False),
        sa.Column("policy_config_id", _Name, nullable=False),
        sa.Column("policy_config_hash", _Digest, nullable=False),
        sa.Column("delivered_at", sa.Double),
        sa.Column("created_at", sa.Double, nullable=False),
        _key("notification_audit_records", "id"),
        _states("notification_audit_records", "status", _DELIVERY),
        sqlite_with_rowid=False,
    )
    _index("ix_notification_audit_records_notification_id", "notification_audit_records", "notification_id")


def _ack_audits() -> None:
    op.create_table(
        "ack_audit_records",
        sa.Column("id", _Id, nullable=False),
        sa.Column("notification_id", _Id, nullable=False),
        sa.Column("old_status", _Word),
        sa.Column("new_status", _Word, nullable=False),
        sa.Column("acked_by", _Name, nullable=False),
        sa.Column("acked_at", sa.Double, nullable=False),
        sa.Column("ack_metadata", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        _key("ack_audit_records", "id"),
        _states("ack_audit_records", "new_status", _RESPONSE),
        sqlite_with_rowid=False,
    )
    _index("ix_ack_audit_records_notification_id", "ack_audit_records", "notification_id")


def _policy_authority() -> None:
    op.create_table(
        "uns_policy_authority",
        sa.Column("id", _Word, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("snapshot_hash", _Digest, nullable=False),
        _key("uns_policy_authority", "id"),
    )


def _policy_contents() -> None:
    op.create_table(
        "notification_policy_snapshots",
        sa.Column("hash", _Digest, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        _key("notification_policy_snapshots", "hash"),
    )
    op.create_table(
        "notification_policy_contents",
        sa.Column("hash", _Digest, nullable=False),
        sa.Column("policy_id", _Name, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        _key("notification_policy_contents", "hash"),
    )


def _policies() -> None:
    op.create_table(
        "notification_policy_revisions",
        sa.Column("id", _text(300), nullable=False),
        sa.Column("policy_id", _Name, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("notification_type", _Name, nullable=False),
        sa.Column("status", _Word, nullable=False),
        sa.Column("content_hash", _Digest, nullable=False),
        sa.Column("snapshot_hash", _Digest),
        sa.Column("created_by", _Name, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("activated_at", sa.Double),
        sa.Column("retired_at", sa.Double),
        sa.Column("delta_id", _Id),
        _key("notification_policy_revisions", "id"),
        _states("notification_policy_revisions", "status", _POLICY),
    )
    _index("ix_notification_policy_revisions_policy_id", "notification_policy_revisions", "policy_id")
    op.create_table(
        "notification_policies",
        sa.Column("policy_id", _Name, nullable=False),
        sa.Column("notification_type", _Name, nullable=False),
        sa.Column("status", _Word, nullable=False),
        sa.Column("content_hash", _Digest, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        _key("notification_policies", "policy_id"),
        _states("notification_policies", "status", _POLICY),
    )
    _index("ix_notification_policies_notification_type", "notification_policies", "notification_type")


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _states(table: str, column: str, words: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({words})", name=op.f(f"ck_{table}_{column}"))


def _is_true(column: str) -> sa.ColumnElement[bool]:
    # As queries have it, which a partial index must match: `= 1` on SQLite.
    return sa.column(column, sa.Boolean) == sa.true()


def _index(name: str, table: str, *columns: str, where: str | sa.ColumnElement[bool] | None = None) -> None:
    partial: dict[str, Any] = {}
    if where is not None:
        predicate = sa.text(where) if isinstance(where, str) else where
        partial = {"sqlite_where": predicate, "postgresql_where": predicate}
    op.create_index(op.f(name), table, list(columns), **partial)
