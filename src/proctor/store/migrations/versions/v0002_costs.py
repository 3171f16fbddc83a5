"""What is known of a cost of which a part is not, and where it comes from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; of rows that were there the known part is all or nothing."""
    op.add_column("usage", sa.Column("cost_at_least_usd", sa.Double()))
    op.add_column("usage", sa.Column("unpriced_calls", sa.BigInteger()))
    op.add_column("usage", sa.Column("price_sources", sa.Text()))
    op.execute(
        "UPDATE usage SET cost_at_least_usd = coalesce(cost_usd, 0.0), "
        "unpriced_calls = CASE WHEN cost_usd IS NULL THEN calls ELSE 0 END"
    )
