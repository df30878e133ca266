from django.urls import URLPattern, path

from . import computers, states, templates, workers

urlpatterns: list[URLPattern] = [
    path("templates/", templates.template_list, name="template-list"),
    path("templates/<slug:name>/", templates.template, name="template"),
    path("templates/<slug:name>/<int:version>/publish/", templates.publish, name="template-publish"),
    path("templates/<slug:name>/<int:version>/discard/", templates.discard, name="template-discard"),
    path("workers/", workers.worker_list, name="worker-list"),
    path("workers/<uuid:worker_id>/", workers.worker, name="worker"),
    path("workers/<uuid:worker_id>/pause/", workers.pause, name="worker-pause"),
    path("workers/<uuid:worker_id>/resume/", workers.resume, name="worker-resume"),
    path("workers/<uuid:worker_id>/remove/", workers.remove, name="worker-remove"),
    path("computers/", computers.computer_list, name="computer-list"),
    path("computers/new/", computers.new, name="computer-new"),
    path("computers/<uuid:hold_id>/", computers.computer, name="computer"),
    path("computers/<uuid:hold_id>/view/", computers.ticket, name="computer-view"),
    path("computers/<uuid:hold_id>/drive/", computers.ticket_to_drive, name="computer-drive"),
    path("computers/<uuid:hold_id>/close/", computers.close, name="computer-close"),
    path("computers/<uuid:hold_id>/save/", computers.save, name="computer-save"),
    path("computers/<uuid:hold_id>/template/", computers.save_as_template, name="computer-template"),
    path("states/", states.state_list, name="state-list"),
    path("states/<uuid:state_id>/", states.state, name="state"),
    path("states/<uuid:state_id>/keep/", states.keep_longer, name="state-keep"),
    path("states/<uuid:state_id>/delete/", states.delete, name="state-delete"),
]
