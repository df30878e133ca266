"""`/v1/computers`: open a desktop, use it, keep what came of it, close it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast
from uuid import UUID

from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from console.actions.workspaces import NotAllowed
from console.api.idempotency import KEY, once
from console.api.problems import FieldProblem, InvalidRequest, Problem
from console.api.views import WorkspaceList, WorkspaceView
from console.fields import Name, RangedInteger, StrictDocument, StrictString, valid
from console.models import Scope, Token
from desktops import limits
from desktops.actions import asks, holds, views
from desktops.actions.templates import draft_from
from desktops.models import Ask, Hold, TemplateVersion
from desktops.opening import OpeningSerializer

from .computer_documents import AskSerializer, ComputerDetailSerializer, ComputerSerializer
from .serializers import StateSerializer, TemplateVersionSerializer
from .states import states_of

MOST_WAIT, USUAL_WAIT = 30, 20  # seconds
WAIT = OpenApiParameter(
    "wait",
    int,
    OpenApiParameter.QUERY,
    description=f"Seconds to wait for it to be done, 0 to {MOST_WAIT}; {USUAL_WAIT} unless named. Then it is a 202.",
)


class SavingSerializer(StrictDocument):
    label = Name(  # type: ignore[assignment]  # DRF takes declared fields off the class
        max_length=limits.LABEL_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="What people know the saved desktop by.",
    )
    keep_days = RangedInteger(
        limits.KEEP_DAYS,
        required=False,
        default=limits.KEEP_DAYS.default,
        help_text="It is deleted when nothing was started from it for so long, and nothing needs it.",
    )


class DraftSerializer(StrictDocument):
    name = StrictString(
        max_length=50,
        validators=[
            RegexValidator(
                r"\A[a-z0-9]+(-[a-z0-9]+)*\Z",
                "Use lower-case letters and digits, with single hyphens between them.",
            )
        ],
        help_text="Of the template: an existing one gets its next version, a new one its first.",
    )
    title = Name(
        max_length=limits.TITLE_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Of a new template.",
    )


class ComputerFilters(filters.FilterSet):
    status = filters.MultipleChoiceFilter(choices=Hold.Status.choices, help_text="May be repeated.")

    class Meta:
        model = Hold
        fields: list[str] = []


class ComputerListView(WorkspaceList):
    scopes = {"GET": Scope.COMPUTERS_READ, "POST": Scope.COMPUTERS_WRITE}
    problems: ClassVar = ("409",)
    queryset = Hold.objects.none()
    serializer_class = ComputerSerializer
    filterset_class = ComputerFilters
    page_key = ("-created_at", "id")

    def get_queryset(self) -> QuerySet[Hold]:
        return holds.rows().filter(workspace=self.workspace)

    @extend_schema(
        summary="Computers",
        description="Those that people and their code have opened, newest first. Desktops of runs are not among them.",
        tags=["computers"],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        summary="Open a computer",
        description=(
            "Of a published template version, or of a saved desktop. The reply is the computer, `waiting`: ask for it "
            "until it is `ready`. It costs from its start until it is closed, at most its cap, and closes by itself "
            "when it has not been used for `idle_minutes` or is there for `max_minutes`."
        ),
        request=OpeningSerializer,
        responses={201: ComputerDetailSerializer},
        parameters=[KEY],
        tags=["computers"],
    )
    def post(self, request: Request) -> Response:
        return once(request, self.workspace, self._open)

    def _open(self) -> Response:
        asked = OpeningSerializer(data=cast(Any, self.request.data), context={"workspace": self.workspace})
        asked.is_valid(raise_exception=True)
        hold = holds.open_computer(
            workspace=self.workspace,
            template_version=asked.validated_data["template_version"],
            state=asked.validated_data["saved"],
            idle_minutes=asked.validated_data["idle_minutes"],
            max_minutes=asked.validated_data["max_minutes"],
            spend_cap=asked.validated_data["spend_cap_usd"],
            actor=self.actor,
        )
        location = self.request.build_absolute_uri(reverse("api-computer", kwargs={"id": hold.pk}))
        return Response(
            _document(self.request, holds.rows().get(pk=hold.pk)),
            status=status.HTTP_201_CREATED,
            headers={"Location": location},
        )


class _OneComputer(WorkspaceView):
    def computer(self) -> Hold:
        """Another workspace's is as absent as one that never was."""
        found: Hold = get_object_or_404(holds.rows().filter(workspace=self.workspace), pk=self.kwargs["id"])
        return found


class ComputerView(_OneComputer):
    scopes = {"GET": Scope.COMPUTERS_READ, "DELETE": Scope.COMPUTERS_WRITE}
    http_method_names = ["get", "head", "delete"]

    @extend_schema(
        summary="One computer",
        description="With what its worker was asked to do with it, newest first.",
        responses=ComputerDetailSerializer,
        tags=["computers"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(_document(request, self.computer()))

    @extend_schema(
        operation_id="computers_close",
        summary="Close a computer",
        description=(
            "For who opened it, admins and owners. It is `closing` until its worker has removed its desktop. "
            "Closing twice is no error."
        ),
        responses={200: ComputerDetailSerializer},
        tags=["computers"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        try:
            holds.close_computer(self.computer(), actor=self.actor)
        except NotAllowed as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_use", str(error)) from error
        return Response(_document(request, self.computer()))


class TicketSerializer(serializers.Serializer[Any]):
    socket = serializers.URLField(help_text="A websocket, for one connection.")
    seconds = serializers.IntegerField(help_text="Until it must have been dialled.")


class ComputerWatchView(_OneComputer):
    scopes = {"POST": Scope.COMPUTERS_READ}
    problems: ClassVar = ("409",)
    http_method_names = ["post"]

    @extend_schema(
        operation_id="computers_watch",
        summary="Watch a computer",
        description=(
            "A ticket for one websocket that shows its screen and takes no input. Dial it with the same token in an "
            "`Authorization` header. Binary frames are RFB 3.8 (VNC), text frames are JSON: one of type `view` says "
            'how it stands; the client sends `{"type": "seen", "bytes": n}`, all binary bytes taken in so far, since '
            "no more than a window of them is sent ahead. The audit log says who watched. A ticket serves once, so "
            "this takes no `Idempotency-Key`."
        ),
        request=None,
        responses={201: TicketSerializer},
        tags=["computers"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        valid(StrictDocument, request.data)
        computer = self.computer().computer
        if computer is None:
            raise Problem(status.HTTP_409_CONFLICT, "not_live", "This computer has no desktop yet.")
        try:
            ticket = views.let_watch(computer, actor=self.actor)
        except views.NotLive as ended:
            raise Problem(status.HTTP_409_CONFLICT, "not_live", str(ended)) from ended
        door = "watch" if isinstance(request.auth, Token) else "live"
        address = request.build_absolute_uri(f"/ws/{door}/{ticket}").replace("http", "ws", 1)
        document = {"socket": address, "seconds": views.TICKET.seconds}
        return Response(document, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


class _Asking(_OneComputer):
    """POST asks its worker, once under a key, and waits for the answer outside of any transaction."""

    problems: ClassVar = ("409",)
    http_method_names = ["post"]

    def ask(self, request: Request, act: Callable[[Hold], Ask]) -> Response:
        seconds = _seconds(request.query_params.get("wait"))
        reply = once(request, self.workspace, lambda: self._asked(self.computer(), act))
        ask = Ask.objects.select_related("hold", "template_version__template").get(pk=reply.data["id"])
        ask = asks.awaited(ask, seconds)
        if ask.status == Ask.Status.FAILED:
            raise Problem(status.HTTP_409_CONFLICT, "not_saved", ask.error)
        if ask.status == Ask.Status.DONE:
            return Response(
                self.made(ask), status=status.HTTP_201_CREATED, headers={"Location": reply["Location"]}
            )
        return reply

    def made(self, ask: Ask) -> Any:
        """The document of what came of it."""
        raise NotImplementedError

    def _asked(self, hold: Hold, act: Callable[[Hold], Ask]) -> Response:
        try:
            ask = act(hold)
        except NotAllowed as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_use", str(error)) from error
        except holds.NotReady as error:
            raise Problem(status.HTTP_409_CONFLICT, "not_ready", str(error)) from error
        location = self.request.build_absolute_uri(reverse("api-computer", kwargs={"id": hold.pk}))
        return Response(
            AskSerializer(ask).data, status=status.HTTP_202_ACCEPTED, headers={"Location": location}
        )


class ComputerStatesView(_Asking):
    scopes = {"POST": Scope.COMPUTERS_WRITE}

    @extend_schema(
        operation_id="computers_save",
        summary="Save a computer",
        description=(
            "As it is now, with what is open in it; it goes on. 201 with the saved desktop, from which others can be "
            "opened; 202 while its worker is at it, and then the computer's `asks` say what came of it; 409 "
            "`not_saved` says why it cannot be."
        ),
        request=SavingSerializer,
        responses={201: StateSerializer, 202: AskSerializer},
        parameters=[KEY, WAIT],
        tags=["computers"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.ask(
            request,
            lambda hold: asks.save_computer(hold, **valid(SavingSerializer, request.data), actor=self.actor),
        )

    def made(self, ask: Ask) -> Any:
        state = states_of(self.workspace).get(name=ask.state_name)
        return StateSerializer(state, context={"request": self.request}).data


class ComputerTemplateView(_Asking):
    scopes = {"POST": Scope.COMPUTERS_WRITE}

    @extend_schema(
        operation_id="computers_make_template",
        summary="Save a computer as a template version",
        description=(
            "A draft with the files that it has now; it goes on. What its programs have not written yet is not in it. "
            "Replies as saving does. An admin or owner publishes the draft, and only then can it be opened and run."
        ),
        request=DraftSerializer,
        responses={201: TemplateVersionSerializer, 202: AskSerializer},
        parameters=[KEY, WAIT],
        tags=["computers"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.ask(
            request, lambda hold: draft_from(hold, **valid(DraftSerializer, request.data), actor=self.actor)
        )

    def made(self, ask: Ask) -> Any:
        version = TemplateVersion.objects.select_related("template").filter(asks=ask).first()
        if version is None:
            raise Problem(status.HTTP_409_CONFLICT, "discarded", "This draft was made, and discarded since.")
        return TemplateVersionSerializer(version, context={"request": self.request}).data


def _document(request: Request, hold: Hold) -> Any:
    return ComputerDetailSerializer(hold, context={"request": request}).data


def _seconds(text: str | None) -> int:
    if text is None:
        return USUAL_WAIT
    if not (text.isascii() and text.isdigit() and len(text) < 4 and int(text) <= MOST_WAIT):
        wrong = f"Must be between 0 and {MOST_WAIT}."
        raise InvalidRequest([FieldProblem(field="wait", code="invalid", message=wrong)])
    return int(text)
