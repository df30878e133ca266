from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "evaluations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from runs.supervisor import advance_also

        from . import assignments  # noqa: F401  # registers the handler of rollouts
        from .actions.advance import advance, going

        advance_also("evaluation", going, advance)
