from django.apps import AppConfig


class DesktopsConfig(AppConfig):
    name = "desktops"
    default_auto_field = "django.db.models.BigAutoField"
