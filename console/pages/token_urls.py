from django.urls import URLPattern, path

from . import tokens

urlpatterns: list[URLPattern] = [
    path("tokens/", tokens.token_list, name="token-list"),
    path("tokens/<str:token_key>/revoke/", tokens.revoke, name="token-revoke"),
]
