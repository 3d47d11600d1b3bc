"""Search over all threads."""

from quart import Blueprint, Response, request

from app.lifetime import Services
from app.search import search_messages
from web.replies import json_reply, query_number


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("search", __name__)

    @routes.get("/api/search")
    async def search() -> Response:
        limit = int(query_number("limit", 20, 1, 100))
        hits = await search_messages(services.database, request.args.get("q", ""), limit)
        return json_reply({"hits": hits})

    return routes
