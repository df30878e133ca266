from django.urls import URLPattern, path

from . import members

urlpatterns: list[URLPattern] = [
    path("members/", members.member_list, name="member-list"),
    path("members/<int:user_id>/role/", members.role, name="member-role"),
    path("members/<int:user_id>/remove/", members.remove, name="member-remove"),
    path("members/invitations/<int:pk>/renew/", members.renew_link, name="member-invitation-renew"),
    path("members/invitations/<int:pk>/revoke/", members.revoke_link, name="member-invitation-revoke"),
]
