from django.urls import URLPattern, path

from . import members

urlpatterns: list[URLPattern] = [
    path("members/", members.member_list, name="member-list"),
    path("members/<int:user_id>/role/", members.role, name="member-role"),
    path("members/<int:user_id>/remove/", members.remove, name="member-remove"),
]
