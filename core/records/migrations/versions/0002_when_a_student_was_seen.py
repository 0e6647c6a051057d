"""When each student was last seen, so that who does not come back can be forgotten.

Everybody of whom something is kept gets a row, and counts as seen today.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("students", sa.Column("seen_at", sa.Double, nullable=False, server_default="0"))
    op.execute(
        "INSERT INTO students (token_hash, name, admission) "
        "SELECT student, '', '' FROM (SELECT student FROM jobs UNION SELECT student FROM guesses) "
        "AS known WHERE student NOT IN (SELECT token_hash FROM students)"
    )
    op.execute(sa.text("UPDATE students SET seen_at = :now").bindparams(now=time.time()))
    op.execute("DELETE FROM lab WHERE name = 'schema'")  # `alembic_version` says that now
