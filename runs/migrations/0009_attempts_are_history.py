"""Triggers: an attempt that has ended keeps its result, and so do its tries; steps are never changed."""

from django.db import migrations

# An ended attempt begins anew in one case only: it has no verdict, and its run goes on (again).
RESULT = """(%s.run_id, %s.number, %s.task_id, %s.status, %s.verifier, %s.reward, %s.invalid_reasons, %s.checker_error,
      %s.ended_at)"""
OF_TRY = "%s.number, %s.ended_at, %s.ok, %s.invalid_reasons"


def both(columns: str) -> str:
    return f"{columns.replace('%s', 'NEW')}\n     IS DISTINCT FROM\n     {columns.replace('%s', 'OLD')}"


TRIES = {
    "attempttry": f"({OF_TRY}, %s.attempt_id, %s.checker_error, %s.reward, %s.verdict)",
    "prefixtry": f"({OF_TRY}, %s.prefix_id)",
}
FORWARD = f"""
CREATE FUNCTION deskyard_attempt_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF {both(RESULT)}
     AND NOT (NEW.status = 'queued' AND OLD.verifier <> 'valid' AND EXISTS (
       SELECT FROM runs_run WHERE id = OLD.run_id AND status NOT IN ('completed', 'failed', 'cancelled')))
  THEN
    RAISE EXCEPTION 'attempt % has ended and cannot change', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER attempt_is_history BEFORE UPDATE ON runs_attempt FOR EACH ROW
  WHEN (OLD.status IN ('done', 'error', 'cancelled')) EXECUTE FUNCTION deskyard_attempt_is_history();

CREATE FUNCTION deskyard_try_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'try % has ended and cannot change', OLD.id USING ERRCODE = 'check_violation';
END $$;
""" + "".join(
    f"""
CREATE TRIGGER try_is_history BEFORE UPDATE ON runs_{table} FOR EACH ROW
  WHEN (OLD.ended_at IS NOT NULL AND {both(columns)}) EXECUTE FUNCTION deskyard_try_is_history();
"""
    for table, columns in TRIES.items()
)
FORWARD += """
CREATE FUNCTION deskyard_step_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'steps are append-only' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER step_is_history BEFORE UPDATE ON runs_step FOR EACH ROW EXECUTE FUNCTION deskyard_step_is_history();
"""
BACKWARD = """
DROP TRIGGER step_is_history ON runs_step;
DROP FUNCTION deskyard_step_is_history();
DROP TRIGGER try_is_history ON runs_attempttry;
DROP TRIGGER try_is_history ON runs_prefixtry;
DROP FUNCTION deskyard_try_is_history();
DROP TRIGGER attempt_is_history ON runs_attempt;
DROP FUNCTION deskyard_attempt_is_history();
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0008_prefixes")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
