"""Settings, all from the environment. `make up` fills it; in production you do.

DATABASE_URL            PostgreSQL; without it the embedded server under DESKYARD_HOME
DJANGO_SECRET_KEY       sessions and CSRF
DESKYARD_SECRET_KEYS    comma-separated Fernet keys, newest first: secrets at rest
DESKYARD_SIGNING_KEY    Ed25519 private key, base64 of its 32 bytes: provenance
                        (a key that is not given is made once and kept in DESKYARD_HOME/secrets.json)
DESKYARD_HOME           data folder (default .deskyard)
DESKYARD_PUBLIC_URL     how browsers and clients reach the console
DESKYARD_NO_WORKER_SECONDS  how long a run waits for a worker to come back before it ends (default 90)
DESKYARD_OPEN_WORKSPACES  1: anybody with an account may make workspaces; else only platform staff
DESKYARD_WEBHOOKS_TO_PRIVATE  1: webhooks may go by http and to addresses of your own network (default 0)
DESKYARD_TRUSTED_PROXIES  how many proxies before the console add to X-Forwarded-For (default 0: it is not believed)
DESKYARD_STATIC_ROOT    where collected static files are put (default DESKYARD_HOME/static)
DESKYARD_LOG_LEVEL      of the log on standard error (default INFO)
DJANGO_ALLOWED_HOSTS    comma-separated names that the console answers to (default 127.0.0.1, localhost, [::1])
DJANGO_DEBUG            1: error pages show code; never where others can reach the console (default 0)
EMAIL_HOST              mail server, for forgotten passwords and invitations; with EMAIL_PORT, EMAIL_HOST_USER,
                        EMAIL_HOST_PASSWORD, EMAIL_FROM. Without it no mail is sent, and the pages say so
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import dj_database_url
from csp.constants import NONE, SELF
from environs import Env

from console.embedded.home import Home

BASE_DIR = Path(__file__).resolve().parent.parent
env = Env()

VERSION = "0.1.0"
HOME = Path(env.str("DESKYARD_HOME", str(BASE_DIR / ".deskyard"))).absolute()
DEBUG = env.bool("DJANGO_DEBUG", False)
TESTING = "pytest" in sys.modules


def _key(name: str) -> str:
    """From the environment, else the data folder's own, made once."""
    return env.str(name, "") or Home(HOME).keys()[name]


SECRET_KEY = _key("DJANGO_SECRET_KEY")
DESKYARD_SECRET_KEYS = [key.strip() for key in _key("DESKYARD_SECRET_KEYS").split(",")]
DESKYARD_SIGNING_KEY = _key("DESKYARD_SIGNING_KEY")

OPEN_WORKSPACES = env.bool("DESKYARD_OPEN_WORKSPACES", False)
PUBLIC_URL = env.str("DESKYARD_PUBLIC_URL", f"http://127.0.0.1:{env.int('DESKYARD_PORT', 8000)}").rstrip("/")
ALLOWED_HOSTS = env.list("DJANGO_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
SECURE_COOKIES = PUBLIC_URL.startswith("https://")
NO_WORKER_SECONDS = env.int("DESKYARD_NO_WORKER_SECONDS", 90)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "channels",
    "csp",
    "django_htmx",
    "template_partials",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "console",
    "desktops",
    "runs",
    "evaluations",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "console.source.remember_source",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "console.redaction.refuse_misplaced_secrets",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.shell",
            ],
            "builtins": ["template_partials.templatetags.partials", "console.templatetags.deskyard"],
        },
    }
]

# The embedded server leaves its address in the data folder (console.embedded.postgres).
_EMBEDDED = HOME / "database.url"
_DATABASE_URL = env.str("DATABASE_URL", None) or (_EMBEDDED.read_text().strip() if _EMBEDDED.exists() else "")
DATABASES = {
    "default": dj_database_url.parse(_DATABASE_URL)
    if _DATABASE_URL
    else {"ENGINE": "django.db.backends.postgresql", "NAME": "deskyard"}
}
DATABASES["default"]["CONN_MAX_AGE"] = 0 if TESTING else 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"].setdefault("TEST", {"NAME": "test_deskyard"})

# Wrong passwords and codes are counted here, by all consoles together.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "console_cache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},  # when it is full a third is dropped, and counts with it
    }
}

AUTH_USER_MODEL = "console.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("DESKYARD_TRUSTED_PROXIES", 0)
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_ADAPTER = "console.accounts.InvitedOnlyAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # no mail to whoever has no account
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_RATE_LIMITS = {"login_failed": "10/m/ip,5/5m/key", "invitation": "10/m/ip"}
EMAIL_HOST = env.str("EMAIL_HOST", "")
EMAIL_PORT = env.int("EMAIL_PORT", 587)
EMAIL_USE_TLS = EMAIL_PORT == 587
EMAIL_USE_SSL = EMAIL_PORT == 465
EMAIL_HOST_USER = env.str("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.str("EMAIL_HOST_PASSWORD", "")
EMAIL_TIMEOUT = 10
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'dummy'}.EmailBackend"
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.str("EMAIL_FROM", "deskyard@localhost")
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_ADAPTER = "console.accounts.SealedFactors"
MFA_TOTP_ISSUER = "Deskyard"
MFA_TOTP_TOLERANCE = 1  # phones' clocks are off by some seconds
# An e-mail is the operator's word or was reached by a link; where no mail is sent none could be verified otherwise.
MFA_ALLOW_UNVERIFIED_EMAIL = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = env.path("DESKYARD_STATIC_ROOT", HOME / "static")
STATICFILES_DIRS = [
    BASE_DIR / "static",
    *(
        (prefix, path)
        for prefix, path in (
            ("tabler", BASE_DIR / "node_modules/@tabler/core/dist/css"),
            ("novnc/core", BASE_DIR / "node_modules/@novnc/novnc/core"),
            ("novnc/vendor", BASE_DIR / "node_modules/@novnc/novnc/vendor"),
            ("inter", BASE_DIR / "node_modules/@fontsource-variable/inter/files"),
        )
        if path.is_dir()
    ),
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "blobs": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(HOME / "blobs")},
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG or TESTING

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_COOKIES else 0
# Where the console is reached by https, what stands before it says how a request came.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "style-src": [SELF],
        "script-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    },
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 << 20  # the largest blob a worker may send

# For development and for receivers in the house: http, and addresses that are not of the public internet.
WEBHOOKS_TO_PRIVATE = env.bool("DESKYARD_WEBHOOKS_TO_PRIVATE", False)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "console.api.authentication.WorkspaceTokenAuthentication",
        "console.api.authentication.WorkspaceSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["console.api.permissions.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "console.api.pagination.Pages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "console.api.problems.exception_handler",
    "DATETIME_FORMAT": "iso-8601",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_PREFIX": "dy_", "TOKEN_TTL": timedelta(days=90)}
MIGRATION_MODULES = {"knox": None}  # its own token table, which ours replaces, is not made
KNOX_TOKEN_MODEL = "console.Token"  # noqa: S105  a model, not a secret
SPECTACULAR_SETTINGS = {
    "TITLE": "Deskyard API",
    "VERSION": "v1",
    "DESCRIPTION": "Runs of computer-use tasks on disposable Linux desktops. Errors are RFC 9457 problem documents.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "/static/favicon.svg",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "RunStatus": "runs.models.run.Run.Status",
        "RunKind": "runs.models.run.Run.Kind",
        "AttemptStatus": "runs.models.attempt.Attempt.Status",
        "TemplateStatus": "desktops.models.template.TemplateVersion.Status",
        "StateStatus": "desktops.models.state.State.Status",
        "EvaluationStatus": "evaluations.models.evaluation.Evaluation.Status",
        "RolloutStatus": "evaluations.models.rollout.Rollout.Status",
        "StateOrigin": "desktops.models.state.State.Origin",
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "console.redaction.RedactingFormatter",
            "format": "{asctime} {levelname:<7} {name}: {message}",
            "style": "{",
        }
    },
    "filters": {"in_a_line": {"()": "console.logs.InALine"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("DESKYARD_LOG_LEVEL", "INFO")},
    "loggers": {
        "daphne": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
        "django.request": {"filters": ["in_a_line"]},
    },
}
