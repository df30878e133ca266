from django.urls import URLPattern, path

from . import tasksets

urlpatterns: list[URLPattern] = [
    path("task-sets/", tasksets.task_sets, name="task-set-list"),
    path("task-sets/<slug:name>/", tasksets.task_set, name="task-set"),
    path("task-sets/<slug:name>/tasks/<str:task_id>/", tasksets.task, name="task"),
]
