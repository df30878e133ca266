from django.apps import AppConfig


class DesktopsConfig(AppConfig):
    name = "desktops"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import assignments  # noqa: F401  registers the handler of kind `computer`
        from .actions.holds import wanted_by_holds
        from .actions.states import keep_while
        from .subjects import name_subjects

        keep_while(wanted_by_holds)
        name_subjects("computer", "desktops.pages.computers.holds_named")
