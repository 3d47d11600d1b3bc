"""Which models there are."""

from quart import Blueprint, Response

from app.lifetime import Services
from web.replies import json_reply


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("models", __name__)

    @routes.get("/api/models")
    async def models() -> Response:
        catalogue = services.catalogue
        return json_reply({"default": catalogue.default, "models": catalogue.list()})

    return routes
