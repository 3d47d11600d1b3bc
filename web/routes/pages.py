"""The page and its files."""

from contextlib import suppress
from importlib.metadata import version
from urllib.parse import quote

from quart import Blueprint, Response, render_template, request

from app.access import UnauthorizedError
from app.errors import NotFoundError
from app.lifetime import Services
from web.admission import Admission
from web.assets import Assets
from web.mount import root_of


def blueprint(
    services: Services, assets: Assets, base: str, admission: Admission | None
) -> Blueprint:
    routes = Blueprint("pages", __name__)

    if root := root_of(base):

        @routes.get(root)
        async def slash() -> Response:
            # Relative addresses need it; relative itself, for whatever lies before the prefix.
            return Response(b"", 308, {"Location": f"{root.rpartition('/')[2]}/"})

    def admitted() -> bool:
        now = services.clock.now_ms()
        return admission is None or admission.admits(request.headers, request.cookies, now)

    @routes.get("/")
    @routes.get("/t/<thread>")
    async def page(thread: str = "") -> Response:
        if not assets.built:
            text = "The page was not built. `scripts/run` builds it; the API works without it.\n"
            return Response(text, 503, content_type="text/plain; charset=utf-8")
        token = request.args.get("token")
        if admission is not None and token is not None:
            # The cookie instead of the token, and a page whose address does not show it.
            reply = Response(b"", 303, {"Location": f"./{quote(thread)}"})
            # With another server's token, or one that was replaced, the page asks for the link.
            with suppress(UnauthorizedError):
                reply = admission.exchange(token, reply, services.clock.now_ms())
            return reply
        html = await render_template(
            "chat.html",
            base="../" if thread else "./",
            script=assets.script,
            styles=assets.styles,
            version=version("unbroken"),
        )
        # Without the cookie it is the same page, which asks for the link.
        status, headers = (200 if admitted() else 401), {"Cache-Control": "no-cache"}
        return Response(html, status, headers, content_type="text/html; charset=utf-8")

    @routes.get("/sw.js")
    async def service_worker() -> Response:
        """It answers for what is below its own address, so it is not among the static files."""
        return await static("sw.js")

    @routes.get("/static/<path:path>")
    async def static(path: str) -> Response:
        asset = assets.get(path)
        if asset is None:
            raise NotFoundError("No such file", code="NOT_FOUND")
        headers = {
            "ETag": f'W/"{asset.etag}"',  # weak: it is one for both forms
            "Cache-Control": asset.cache,
            "Vary": "Accept-Encoding",
        }
        if request.if_none_match.contains_weak(asset.etag):
            return Response(b"", 304, headers)
        gzip = request.accept_encodings.quality("gzip") > 0
        body = assets.compressed(path) if gzip else None
        if body is not None:
            headers["Content-Encoding"] = "gzip"
        return Response(body or asset.body, headers=headers, content_type=asset.content_type)

    return routes
