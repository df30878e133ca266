"""Trigger: a published template version keeps its image and its egress; it can only be retired."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION deskyard_template_is_pinned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status <> 'draft' AND
     (NEW.template_id, NEW.version, NEW.digest, NEW.egress, NEW.published_at, NEW.status = 'draft')
     IS DISTINCT FROM
     (OLD.template_id, OLD.version, OLD.digest, OLD.egress, OLD.published_at, false)
  THEN
    RAISE EXCEPTION 'template version % is published and cannot change', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER template_is_pinned BEFORE UPDATE ON desktops_templateversion
  FOR EACH ROW EXECUTE FUNCTION deskyard_template_is_pinned();
"""

BACKWARD = """
DROP TRIGGER template_is_pinned ON desktops_templateversion;
DROP FUNCTION deskyard_template_is_pinned();
"""


class Migration(migrations.Migration):
    dependencies = [("desktops", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
