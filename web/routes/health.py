"""For operators: is the process up, does it accept work."""

from quart import Blueprint, Response

from app.errors import UnavailableError
from app.lifetime import Services
from web.replies import json_reply


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    async def healthz() -> Response:
        return json_reply({"status": "ok"})

    @routes.get("/readyz")
    async def readyz() -> Response:
        if services.drain.is_set():
            raise UnavailableError("The server is shutting down", code="SHUTTING_DOWN")
        return json_reply({"status": "ok"})

    return routes
