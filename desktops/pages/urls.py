from django.urls import URLPattern, path

from . import states, templates, workers

urlpatterns: list[URLPattern] = [
    path("templates/", templates.template_list, name="template-list"),
    path("templates/<slug:name>/", templates.template, name="template"),
    path("workers/", workers.worker_list, name="worker-list"),
    path("workers/<uuid:worker_id>/", workers.worker, name="worker"),
    path("workers/<uuid:worker_id>/pause/", workers.pause, name="worker-pause"),
    path("workers/<uuid:worker_id>/resume/", workers.resume, name="worker-resume"),
    path("states/", states.state_list, name="state-list"),
    path("states/<uuid:state_id>/", states.state, name="state"),
    path("states/<uuid:state_id>/delete/", states.delete, name="state-delete"),
]
