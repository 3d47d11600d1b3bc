"""The application: routes, guards, headers."""

from quart import Response, request

from app.lifetime import Services
from web.admission import Admission
from web.assets import Assets
from web.guard import Guard
from web.mount import Mounted
from web.replies import answer_errors
from web.routes import (
    attachments,
    feed,
    health,
    models,
    pages,
    search,
    sign_in,
    streams,
    threads,
)
from web.transport import App

# No inline script or style, nothing from elsewhere, and no string ever becomes markup (A4).
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types unbroken-worker",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def create_app(
    services: Services, *, admission: Admission | None = None, assets: Assets | None = None
) -> App:
    """The ASGI application of one process. It may be mounted in another one, by its `root_path`.

    Args:
        admission: who is let in; None: everybody who can reach us, which is this machine.
        assets: the page; None: as it was built.
    """
    app = App("web", template_folder="templates", static_folder=None)
    settings = services.settings
    app.config["MAX_BODY"] = settings.max_body
    # Quart's limit bounds what is kept of a body nobody reads; each route has its own below it.
    app.config["MAX_CONTENT_LENGTH"] = max(settings.max_body, settings.max_attachment)
    # Under a token any name may lead here: it, not the name, keeps other sites out.
    guard = Guard([settings.host], any_host=admission is not None)
    base = settings.base_path
    app.asgi_app = Mounted(app.asgi_app, base)  # type: ignore[method-assign]
    app.url_map.merge_slashes = False  # a redirect would not know where we are mounted
    assets = assets or Assets()
    answer_errors(app, assets)

    @app.before_request
    async def check() -> None:
        page = request.method in ("GET", "HEAD") and not request.path.startswith("/api/")
        headers = request.headers
        guard.check(
            headers.get("Host", ""),
            headers.get("Origin"),
            headers.get("Sec-Fetch-Site"),
            page=page,
        )

    @app.before_request
    async def admit() -> None:
        # The page and its files hold nothing of anybody; the page answers for itself.
        data = request.path.startswith("/api/") and request.path != sign_in.PATH
        if admission is not None and data:
            admission.check(request.headers, request.cookies, services.clock.now_ms())

    @app.after_request
    async def harden(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.path.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "no-store")
        if request.method == "HEAD" and response.mimetype == "text/event-stream":
            response.set_data(b"")  # else it would follow the stream to its end, saying nothing
        return response

    for blueprint in (
        threads.blueprint(services),
        streams.blueprint(services),
        feed.blueprint(services),
        search.blueprint(services),
        attachments.blueprint(services),
        models.blueprint(services),
        health.blueprint(services),
        pages.blueprint(services, assets, base, admission),
        sign_in.blueprint(services, admission),
    ):
        app.register_blueprint(blueprint)
    return app
