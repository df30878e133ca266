"""Computers that people open, what their workers are asked to do with them, and drafts made from them."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


FORWARD = """
CREATE FUNCTION deskyard_hold_is_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status IN ('closed', 'failed') AND
     (NEW.status, NEW.stop_reason, NEW.detail, NEW.template_version_id, NEW.state_id, NEW.assignment_id,
      NEW.computer_id, NEW.started_at, NEW.ended_at)
     IS DISTINCT FROM
     (OLD.status, OLD.stop_reason, OLD.detail, OLD.template_version_id, OLD.state_id, OLD.assignment_id,
      OLD.computer_id, OLD.started_at, OLD.ended_at)
  THEN
    RAISE EXCEPTION 'computer % has ended and cannot change', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER hold_is_history BEFORE UPDATE ON desktops_hold
  FOR EACH ROW EXECUTE FUNCTION deskyard_hold_is_history();
"""

BACKWARD = """
DROP TRIGGER hold_is_history ON desktops_hold;
DROP FUNCTION deskyard_hold_is_history();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0013_audit_indexes'),
        ('desktops', '0008_states'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='templateversion',
            name='base',
            field=models.ForeignKey(blank=True, help_text='The version that the desktop it was made from ran.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='desktops.templateversion'),
        ),
        migrations.AddField(
            model_name='templateversion',
            name='made_by',
            field=models.CharField(blank=True, help_text='Who saved it from a desktop; empty: built.', max_length=120),
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('starting', 'Starting'), ('ready', 'Ready'), ('closing', 'Closing'), ('closed', 'Closed'), ('failed', 'Failed')], default='waiting', max_length=8)),
                ('idle_minutes', models.PositiveSmallIntegerField(help_text='Closed when nobody has used it for so long.')),
                ('max_minutes', models.PositiveSmallIntegerField(help_text='Closed so long after it was handed to a worker.')),
                ('opened_via', models.CharField(max_length=120)),
                ('stop_reason', models.CharField(blank=True, choices=[('closed_by_user', 'Closed by a person'), ('idle', 'Not used for too long'), ('time_limit', 'Time limit reached'), ('budget_exceeded', 'Spend cap reached'), ('workspace_budget_exceeded', 'Workspace budget reached'), ('console_away', 'Console away'), ('no_worker', 'No worker'), ('start_failed', 'Start failed'), ('desktop_lost', 'Desktop lost'), ('worker_lost', 'Worker lost'), ('worker_fault', 'Worker fault')], max_length=25)),
                ('detail', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, help_text='When it was handed to a worker.', null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('assignment', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='hold', to='desktops.assignment')),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='console.budget')),
                ('computer', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='hold', to='desktops.computer')),
                ('opened_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('state', models.ForeignKey(blank=True, help_text='The saved desktop that it starts from.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='holds', to='desktops.state')),
                ('template_version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='desktops.templateversion')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='console.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Ask',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('what', models.CharField(choices=[('save', 'Save'), ('make_image', 'Save as a template version')], max_length=10)),
                ('status', models.CharField(choices=[('asked', 'Being done'), ('done', 'Done'), ('failed', 'Failed')], default='asked', max_length=6)),
                ('label', models.CharField(blank=True, help_text='Of what is saved: what a person reads.', max_length=200)),
                ('asked_by', models.CharField(max_length=120)),
                ('error', models.TextField(blank=True)),
                ('asked_at', models.DateTimeField(auto_now_add=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('state', models.ForeignKey(blank=True, help_text='What was saved.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='desktops.state')),
                ('template_version', models.ForeignKey(blank=True, help_text='The draft that its image is for.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='asks', to='desktops.templateversion')),
                ('hold', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asks', to='desktops.hold')),
            ],
            options={
                'ordering': ['-asked_at'],
            },
        ),
        migrations.AddIndex(
            model_name='hold',
            index=models.Index(fields=['workspace', '-created_at', 'id'], name='hold_newest_first'),
        ),
        migrations.AddIndex(
            model_name='hold',
            index=models.Index(condition=models.Q(('status__in', ['waiting', 'starting', 'ready', 'closing'])), fields=['created_at'], name='hold_live'),
        ),
        migrations.AddConstraint(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('status__in', ['closed', 'failed']), models.Q(('stop_reason', ''), _negated=True)), models.Q(models.Q(('status__in', ['closed', 'failed']), _negated=True), ('ended_at', None)), _connector='OR'), name='hold_ends_for_a_reason'),
        ),
        migrations.AddConstraint(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(('idle_minutes__gte', 1), ('max_minutes__gte', 1)), name='hold_has_limits'),
        ),
        migrations.AddIndex(
            model_name='ask',
            index=models.Index(condition=models.Q(('status', 'asked')), fields=['hold'], name='ask_open'),
        ),
        migrations.AddConstraint(
            model_name='ask',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('answered_at', None), ('status', 'asked')), models.Q(models.Q(('status', 'asked'), _negated=True), ('answered_at__isnull', False)), _connector='OR'), name='ask_answered_once'),
        ),
        migrations.AddConstraint(
            model_name='ask',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'failed'), ('error', ''), _connector='OR'), name='ask_failed_for_a_reason'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
