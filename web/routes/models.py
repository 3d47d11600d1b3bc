"""Which models there are, and whether they answer."""

import msgspec
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
        reached = await catalogue.reachability()
        listed = [
            msgspec.to_builtins(model) | msgspec.to_builtins(reached[model.name])
            for model in catalogue.list()
        ]
        return json_reply({"default": catalogue.default, "models": listed, "limits": limits})

    return routes
