"""The tables as the lab made them before it had migrations.

A database of that time has these tables, or the first few of them, and no `alembic_version`: it
keeps what it has, and gets what it lacks.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "lab",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.String(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "students",
        sa.Column("token_hash", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("admission", sa.String(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "jobs",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("student", sa.String(64), nullable=False),
        sa.Column("activity", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("finished_at", sa.Double, nullable=False),
        sa.Column("view", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )
    op.create_index(
        "jobs_of_student", "jobs", ["student", "activity", "number"], if_not_exists=True
    )
    op.create_table(
        "guesses",
        sa.Column("question", sa.String(64), primary_key=True),
        sa.Column("student", sa.String(64), primary_key=True),
        sa.Column("answer", sa.String(32), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "prompt_decisions",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("decision", sa.String(16), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("rule", sa.String(64), primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "refused_prompts",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("prompt", sa.String(300), nullable=False),
        if_not_exists=True,
    )
