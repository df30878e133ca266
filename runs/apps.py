from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from desktops.subjects import name_subjects

        from . import assignments  # registers the handler of attempts and prefixes
        from .pages.subjects import attempts_named, prefixes_named

        name_subjects(assignments.ATTEMPT, attempts_named)
        name_subjects(assignments.PREFIX, prefixes_named)
