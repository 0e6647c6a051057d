"""What Alembic runs to carry out migrations, on the connection and in the transaction that
`core.records.migrations` gives it."""

from __future__ import annotations

from alembic import context

from core.records.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,  # SQLite can change little of a table in place
)
context.run_migrations()
