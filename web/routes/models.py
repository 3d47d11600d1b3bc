"""Which models there are."""

from quart import Blueprint, Response

from app.lifetime import Services
from web.replies import json_reply


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("models", __name__)

    @routes.get("/api/models")
    async def models() -> Response:
        catalogue = services.catalogue
        settings = services.settings
        limits = {"body": settings.max_body, "attachment": settings.max_attachment}
        return json_reply(
            {"default": catalogue.default, "models": catalogue.list(), "limits": limits}
        )

    return routes
