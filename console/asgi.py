"""ASGI entry: `daphne console.asgi:application`. HTTP by Django, websockets by the apps' consumers."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.urls import path, re_path
from django.utils.module_loading import import_string

from console import access_log, daphne_ways, pool, presence

access_log.make_safe()
daphne_ways.mend()

if not settings.TESTING:  # tests load the application without being a console
    pool.use_pool()
    presence.announce()

# The apps are named by string, as in urls.py: this floor imports none of those above it.
worker_sockets = import_string("desktops.sockets.worker_sockets")
Tunnel, Browser = import_string("desktops.live.Tunnel"), import_string("desktops.live.Browser")
Watcher = import_string("desktops.live.Watcher")
RunConsumer = import_string("runs.sockets.RunConsumer")


async def _nowhere(
    scope: dict[str, Any], receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """A socket of no address: refused, where the router would break."""
    await send({"type": "websocket.close", "code": 4404})


application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": URLRouter(
            [
                *worker_sockets,  # by bearer token, no cookie, so no origin to check
                path("ws/worker/tunnel/<uuid:view>", Tunnel.as_asgi()),
                path("ws/watch/<str:ticket>", Watcher.as_asgi()),
                path(
                    "ws/live/<str:ticket>",
                    AllowedHostsOriginValidator(AuthMiddlewareStack(Browser.as_asgi())),
                ),
                path(
                    "ws/w/<slug:workspace>/runs/<int:number>",
                    AllowedHostsOriginValidator(AuthMiddlewareStack(RunConsumer.as_asgi())),
                ),
                re_path(r"", _nowhere),  # type: ignore[arg-type]  # an ASGI application, which the stubs forget
            ]
        ),
    }
)
