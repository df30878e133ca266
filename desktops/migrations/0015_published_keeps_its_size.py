"""Trigger: a published template version keeps its memory and processors too."""

from django.db import migrations

PINNED = ("template_id", "version", "digest", "egress", "published_at")
SIZE = ("memory_mb", "cpus")


def function(columns: tuple[str, ...]) -> str:
    new, old = (", ".join(f"{row}.{column}" for column in columns) for row in ("NEW", "OLD"))
    return f"""
CREATE OR REPLACE FUNCTION deskyard_template_is_pinned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status <> 'draft' AND ({new}, NEW.status = 'draft') IS DISTINCT FROM ({old}, false) THEN
    RAISE EXCEPTION 'template version % is published and cannot change', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("desktops", "0014_ready_desktops")]
    operations = [migrations.RunSQL(function(PINNED + SIZE), function(PINNED))]
