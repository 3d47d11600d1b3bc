"""Files a person attaches: images and text, bounded, kept apart from the messages."""

from app.errors import InvalidError, NotFoundError
from store import attachments
from store.attachments import AttachmentRow as AttachmentRow
from store.database import Connection, Database

# What each image type begins with; the name and the declared type are only claims.
SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
NAME_CHARS = 200


class Attachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, id_: str, name: str, data: bytes, now: int) -> AttachmentRow:
        """Keep a file under the client's id; the same id again changes nothing.

        Raises InvalidError (ATTACHMENT_INVALID) for what is neither an image nor text.
        """
        row = AttachmentRow(id_, _name(name), media_type(data), len(data), data)

        def write(connection: Connection) -> AttachmentRow:
            attachments.add(connection, row, now)
            return attachments.find(connection, [id_])[id_]

        return await self._database.write(write)

    async def get(self, id_: str) -> AttachmentRow:
        """Raises NotFoundError (ATTACHMENT_NOT_FOUND)."""
        found = await self._database.read(lambda c: attachments.find(c, [id_]))
        if id_ not in found:
            raise NotFoundError("No such file", code="ATTACHMENT_NOT_FOUND")
        return found[id_]


def media_type(data: bytes) -> str:
    """What the bytes are. Raises InvalidError (ATTACHMENT_INVALID)."""
    for kind, beginnings in SIGNATURES.items():
        if data.startswith(beginnings) and (kind != "image/webp" or data[8:12] == b"WEBP"):
            return kind
    if not data:
        raise InvalidError("The file is empty.", code="ATTACHMENT_INVALID")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidError(
            "Only images (PNG, JPEG, GIF, WebP) and text files can be attached.",
            code="ATTACHMENT_INVALID",
        )
    return "text/plain"


def _name(name: str) -> str:
    """The last part of a path, printable, not too long."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in last if char.isprintable())[:NAME_CHARS] or "file"
