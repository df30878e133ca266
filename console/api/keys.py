"""`/v1/keys`: what signed documents of this console verify with."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from .schema import ApiSchema
from .signing import public_keys
from .views import AlwaysJSON


class KeySerializer(serializers.Serializer[dict[str, Any]]):
    keyid = serializers.CharField()
    keytype = serializers.CharField()
    scheme = serializers.CharField()
    public = serializers.CharField(help_text="Hex of the public key's 32 bytes.")
    current = serializers.BooleanField(help_text="The one that signs now; the others signed before it.")
    first_used_at = serializers.DateTimeField()


class KeysSerializer(serializers.Serializer[dict[str, Any]]):
    keys = KeySerializer(many=True)


class KeysView(APIView):
    """Open to everybody: whoever holds a signed manifest may verify it."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AlwaysJSON
    schema = ApiSchema()
    http_method_names = ["get", "head"]

    @extend_schema(summary="Public keys", responses=KeysSerializer, tags=["provenance"])
    def get(self, request: Request) -> Response:
        return Response({"keys": public_keys()})
