from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from desktops.subjects import name_subjects

        from . import assignments  # registers the handler of kind `attempt`
        from .pages.subjects import attempts_named

        name_subjects(assignments.KIND, attempts_named)
