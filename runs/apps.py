from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from desktops.subjects import name_subjects

        from . import assignments  # registers the handler of attempts and prefixes

        name_subjects(assignments.ATTEMPT, "runs.pages.subjects.attempts_named")
        name_subjects(assignments.PREFIX, "runs.pages.subjects.prefixes_named")
