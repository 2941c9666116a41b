"""Who may ask the server, and for what: looked at before any page is.

- The Host must be one that this server is known by: a foreign name that was made to point here (DNS rebinding) is not.
- Requests that another site's page makes are refused, by Origin and by what browsers say in Sec-Fetch-Site.
- With a token, every request carries it: in the address of the page, in the cookie that the page then has, or in the
  header `Authorization: Bearer …`. Comparisons take the same time whatever is wrong.
- Requests are small. Nothing that is asked for is ever looked up in the file system.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.serving.address import ServeOptions

MOST_BODY = 1024  # bytes: nothing that is asked for needs a body
LONGEST_TARGET = 2048  # characters of path and query
LARGEST_HEADERS = 8 * 1024  # characters
SAME_SITE = ("same-origin", "none", None)  # None: not a browser, or an old one
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Stands before an application."""

    def __init__(self, app: ASGIApp, options: ServeOptions, policy: str) -> None:
        """policy: what browsers may run and load."""
        self._app, self._options = app, options
        self._headers = {"Content-Security-Policy": policy, **SECURITY_HEADERS}
        self._cookie = cookie_name(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in self._headers.items():
                    headers[name] = value
                if "token" in scope["state"]:
                    headers.append("Set-Cookie", self._set_cookie())
            await send(message)

        scope["state"] = {}
        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            # Whatever else the request holds is not read.
            await PlainTextResponse(f"{text}\n", status, {"Connection": "close"})(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._knows(host):
            return 421, "This server does not go by that name."
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_TARGET:
            return 414, "The address is too long."
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADERS:
            return 431, "The headers are too long."
        if "transfer-encoding" in headers or not headers.get("content-length", "0").isdigit():
            return 411, "Say how long the request is."
        if int(headers.get("content-length", "0")) > MOST_BODY:
            return 413, "The request is too large."
        if not self._same_site(scope, headers, host):
            return 403, "Requests of other sites are refused."
        if self._options.token is not None and not self._has_token(scope, headers):
            return 401, "This page needs its token: open the whole address that cotrans printed."
        return None

    def _knows(self, host: str) -> bool:
        """Addresses are as good as names that nobody else can give: a foreign page cannot be loaded from them."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in {"localhost", self._options.host.lower()}:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not self._options.loopback and name in own_names()
        return address.is_loopback or not self._options.loopback

    def _same_site(self, scope: Scope, headers: Headers, host: str) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None or scope["method"] not in ("GET", "HEAD"):
            return origin in (f"http://{host}", f"https://{host}") and site in SAME_SITE
        # A link on another page may lead here: it shows the page to the reader, and nothing to the other page.
        opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in SAME_SITE or (opened and scope["path"] == "/")

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        assert self._options.token is not None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [bearer] if scheme.lower() == "bearer" else []
        given += [morsel.value for morsel in _cookies(headers) if morsel.key == self._cookie]
        if any(_same(text, self._options.token) for text in given):
            return True
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""]) if scope["path"] == "/" else [""]
        if _same(asked[0], self._options.token):
            scope["state"]["token"] = True  # the browser has it from now on
            return True
        return False

    def _set_cookie(self) -> str:
        return f"{self._cookie}={self._options.token}; Path=/; HttpOnly; SameSite=Strict"


def cookie_name(options: ServeOptions) -> str:
    """Browsers tell hosts apart, not ports: servers on one machine have cookies of their own."""
    return f"cotrans-{options.port}"


def own_names() -> set[str]:
    """What this machine is called."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"}


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _cookies(headers: Headers) -> list[Any]:
    try:
        return list(SimpleCookie(headers.get("cookie", "")).values())
    except CookieError:
        return []
