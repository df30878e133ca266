"""`/v1/budget`: what the workspace may spend, has spent and holds. Its cap is changed by people, on the Budget page:
no token can raise the cap that bounds it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from console.actions.budgets import root_budget
from console.models import Budget, Scope

from .views import Money, WorkspaceView


class BudgetSerializer(serializers.Serializer[Any]):
    """Dollars. spent + reserved + left = cap; cap and left are null when there is no cap."""

    cap_usd = Money(source="cap", allow_null=True)
    spent_usd = Money(source="spent")
    reserved_usd = Money(source="reserved")
    left_usd = Money(source="left", allow_null=True)


class BudgetView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ}

    @extend_schema(
        summary="The workspace's budget",
        description="Its cap, and what its runs have spent and hold reserved now; spent + reserved never passes it.",
        responses=BudgetSerializer,
        tags=["budget"],
    )
    def get(self, request: Request) -> Response:
        budget: Budget = root_budget(self.workspace)
        return Response(BudgetSerializer(budget).data)
