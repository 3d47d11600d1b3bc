"""From the access token to a cookie."""

import msgspec
from quart import Blueprint, Response

from app.lifetime import Services
from web.admission import Admission
from web.replies import read_body

PATH = "/api/sign-in"


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


def blueprint(services: Services, admission: Admission | None) -> Blueprint:
    routes = Blueprint("sign_in", __name__)

    @routes.post(PATH)
    async def sign_in() -> Response:
        body = await read_body(SignIn)
        reply = Response(b"", 204)
        if admission is None:
            return reply
        return admission.exchange(body.token, reply, services.clock.now_ms())

    return routes
