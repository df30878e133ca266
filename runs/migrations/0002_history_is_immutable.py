"""Triggers: a run that has ended keeps its status, reason, document and counts; events are never changed."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION deskyard_run_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status IN ('completed', 'failed', 'cancelled') AND
     (NEW.status, NEW.stop_reason, NEW.spec, NEW.ended_at, NEW.started_at, NEW.planned, NEW.done, NEW.error,
      NEW.cancelled, NEW.valid, NEW.invalid, NEW.success)
     IS DISTINCT FROM
     (OLD.status, OLD.stop_reason, OLD.spec, OLD.ended_at, OLD.started_at, OLD.planned, OLD.done, OLD.error,
      OLD.cancelled, OLD.valid, OLD.invalid, OLD.success)
  THEN
    RAISE EXCEPTION 'run % has ended and cannot change', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER run_is_history BEFORE UPDATE ON runs_run FOR EACH ROW EXECUTE FUNCTION deskyard_run_is_history();

CREATE FUNCTION deskyard_event_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER event_is_history BEFORE UPDATE ON runs_event FOR EACH ROW EXECUTE FUNCTION deskyard_event_is_history();
"""

BACKWARD = """
DROP TRIGGER event_is_history ON runs_event;
DROP FUNCTION deskyard_event_is_history();
DROP TRIGGER run_is_history ON runs_run;
DROP FUNCTION deskyard_run_is_history();
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
