"""The few things that the server answers: the page, its events, and what a page may ask of a source."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pipelines.serving.address import ServeOptions
from pipelines.serving.feed import Feed
from pipelines.serving.guard import Guard
from pipelines.serving.hub import LiveHub
from pipelines.serving.live_page import live_page, live_policy

ACTIONS = ("pause", "resume", "stop")


def application(hub: LiveHub, feed: Feed, options: ServeOptions) -> ASGIApp:
    """Everything, behind its guard."""
    page = live_page()

    async def show(request: Request) -> Response:
        return HTMLResponse(page)

    async def icon(request: Request) -> Response:
        return Response(status_code=204)  # browsers ask for it unbidden

    async def events(request: Request) -> Response:
        if feed.full:
            raise HTTPException(503, "Too many pages are open.", {"Retry-After": "10"})
        last = request.headers.get("last-event-id") or request.query_params.get("last", "")
        return StreamingResponse(feed.events(last), media_type="text/event-stream")

    async def ask(request: Request) -> Response:
        place, action = request.path_params["place"], request.path_params["action"]
        if place >= len(hub.sources) or action not in ACTIONS:
            raise HTTPException(404)
        done = hub.stop(place) if action == "stop" else hub.pause(place, action == "pause")
        if not done:
            raise HTTPException(409, "This source is over.")
        return Response(status_code=204)

    routes = [
        Route("/", show, methods=["GET"]),
        Route("/favicon.ico", icon, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Route("/sources/{place:int}/{action}", ask, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), options, live_policy())
