from django.urls import URLPattern, URLResolver, include, path

from .attempt import attempt, card
from .budget import budget, change_cap
from .cancel import cancel
from .caps import caps
from .computers import computers
from .configuration import configuration
from .event_log import download, event_log
from .forks import forks
from .home import home
from .jump import jump
from .live import live, ticket, ticket_to_drive
from .metrics import metrics
from .overview import overview
from .provenance import export
from .retry import retry
from .rollouts import download as attempts_file
from .rollouts import rollouts
from .run_list import run_list

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home, name="workspace-home"),
    path("jump/", jump, name="jump"),
    path("runs/", run_list, name="run-list"),
    path("budget/", budget, name="budget"),
    path("budget/cap/", change_cap, name="budget-cap"),
    path("", include("runs.pages.wizard_urls")),
    path("", include("runs.pages.taskset_urls")),
    path("runs/<int:number>/", overview, name="run"),
    path("runs/<int:number>/rollouts/", rollouts, name="run-rollouts"),
    path("runs/<int:number>/attempts.<export:form>", attempts_file, name="run-attempts-file"),
    path("runs/<int:number>/forks/", forks, name="run-forks"),
    path("runs/<int:number>/computers/", computers, name="run-computers"),
    path("runs/<int:number>/computers/<int:computer>/", live, name="run-computer"),
    path("runs/<int:number>/computers/<int:computer>/view/", ticket, name="run-computer-view"),
    path(
        "runs/<int:number>/computers/<int:computer>/take-over/",
        ticket_to_drive,
        name="run-computer-take-over",
    ),
    path("runs/<int:number>/metrics/", metrics, name="run-metrics"),
    path("runs/<int:number>/events/", event_log, name="run-events"),
    path("runs/<int:number>/events.jsonl", download, name="run-events-download"),
    path("runs/<int:number>/configuration/", configuration, name="run-configuration"),
    path("runs/<int:number>/provenance.json", export, name="run-provenance-page"),
    path("runs/<int:number>/cancel/", cancel, name="run-cancel"),
    path("runs/<int:number>/caps/", caps, name="run-caps"),
    path("runs/<int:number>/retry/", retry, name="run-retry"),
    path("runs/<int:number>/attempts/<int:attempt>/", attempt, name="attempt"),
    path("runs/<int:number>/attempts/<int:attempt>/card/", card, name="attempt-card"),
]
