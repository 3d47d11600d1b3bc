"""Attached files: put and get."""

from quart import Blueprint, Response, request

from app.attachments import AttachmentRow
from app.lifetime import Services
from web.replies import json_reply, read_bytes
from web.routes.threads import checked


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("attachments", __name__)

    @routes.put("/api/attachments/<attachment>")
    async def put(attachment: str) -> Response:
        data = await read_bytes(services.settings.max_attachment)
        row = await services.attachments.put(
            checked(attachment, "attachment"),
            request.args.get("name", ""),
            data,
            services.clock.now_ms(),
        )
        return json_reply(_view(row), 201)

    @routes.get("/api/attachments/<attachment>")
    async def get(attachment: str) -> Response:
        row = await services.attachments.get(attachment)
        image = row.media_type.startswith("image/")
        headers = {
            # A text is never shown as a page of ours, whatever it contains.
            "Content-Disposition": "inline" if image else "attachment",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, max-age=31536000, immutable",
        }
        return Response(row.data, headers=headers, content_type=row.media_type)

    return routes


def _view(row: AttachmentRow) -> dict[str, object]:
    return {"id": row.id, "name": row.name, "mediaType": row.media_type, "size": row.size}
