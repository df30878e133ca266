from django.urls import URLPattern, path

from . import webhooks

urlpatterns: list[URLPattern] = [
    path("webhooks/", webhooks.webhook_list, name="webhook-list"),
    path("webhooks/<uuid:webhook_id>/", webhooks.webhook, name="webhook"),
    path("webhooks/<uuid:webhook_id>/test/", webhooks.test, name="webhook-test"),
    path("webhooks/<uuid:webhook_id>/switch/", webhooks.switch, name="webhook-switch"),
    path("webhooks/<uuid:webhook_id>/remove/", webhooks.remove, name="webhook-remove"),
    path("webhooks/<uuid:webhook_id>/deliveries/<int:number>/", webhooks.again, name="webhook-again"),
]
