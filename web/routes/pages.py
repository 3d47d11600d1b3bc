"""The page and its files."""

from importlib.metadata import version

from quart import Blueprint, Response, render_template, request

from app.errors import NotFoundError
from web.assets import Assets


def blueprint(assets: Assets, base: str) -> Blueprint:
    routes = Blueprint("pages", __name__)

    @routes.get("/")
    @routes.get("/t/<thread>")
    async def page(thread: str = "") -> Response:
        if not assets.built:
            text = "The page was not built. `scripts/run` builds it; the API works without it.\n"
            return Response(text, 503, content_type="text/plain; charset=utf-8")
        html = await render_template(
            "chat.html",
            base=base,
            script=assets.script,
            styles=assets.styles,
            version=version("unbroken"),
        )
        return Response(
            html, content_type="text/html; charset=utf-8", headers={"Cache-Control": "no-cache"}
        )

    @routes.get("/static/<path:path>")
    async def static(path: str) -> Response:
        asset = assets.get(path)
        if asset is None:
            raise NotFoundError("No such file", code="NOT_FOUND")
        headers = {"ETag": f'"{asset.etag}"', "Cache-Control": asset.cache}
        if asset.etag in request.headers.get("If-None-Match", ""):
            return Response(b"", 304, headers)
        return Response(asset.body, headers=headers, content_type=asset.content_type)

    return routes
