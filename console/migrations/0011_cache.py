"""The table of Django's database cache. It may be lost in a crash, so it costs no log."""

from django.db import migrations

FORWARD = """
CREATE UNLOGGED TABLE console_cache (
  cache_key varchar(255) PRIMARY KEY, value text NOT NULL, expires timestamptz NOT NULL
);
CREATE INDEX console_cache_expires ON console_cache (expires);
"""


class Migration(migrations.Migration):
    dependencies = [("console", "0010_token_ceiling")]
    operations = [migrations.RunSQL(FORWARD, "DROP TABLE console_cache;")]
