"""The viewer's addresses: each asks a page function, in a thread, and answers with what it renders to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from proctor.errors import ProctorError
from proctor.viewer.attempt_page import attempt_page
from proctor.viewer.compare_page import compare_page
from proctor.viewer.download import Download
from proctor.viewer.inside import open_inside
from proctor.viewer.lanes_page import lanes_page
from proctor.viewer.links import ServerLinks
from proctor.viewer.page import Asked, NotFound, Page, render
from proctor.viewer.results import Results
from proctor.viewer.run_page import run_page
from proctor.viewer.runs_page import runs_page
from proctor.viewer.security import App, Guard
from proctor.viewer.threads import in_thread
from proctor.viewer.words import language_of

ASSETS = {"style.css": "text/css", "attempt.css": "text/css", "viewer.js": "text/javascript"}


class _Anything(PathConvertor):
    """The rest of an address; names of runs may hold line ends."""

    regex = r"[\s\S]*"


register_url_convertor("anything", _Anything())

_LOG = logging.getLogger(__name__)

LANGUAGE_COOKIE = "proctor-language"

MakePage = Callable[..., Page]


def make_app(results: Results, names: Iterable[str] | None) -> App:
    """Return the application that shows `results`, asked for under one of `names` (None is any)."""
    routes = [
        Route("/", _page(results, runs_page)),
        Route("/run/{run:anything}", _page(results, run_page)),
        Route("/attempt/{attempt}/{run:anything}", _page(results, attempt_page)),
        Route("/lanes/{run:anything}", _page(results, lanes_page)),
        Route("/compare", _page(results, compare_page)),
        Route("/file/{run:anything}", _file(results)),
        Route("/static/{name}", _asset),
        Route("/{anything:anything}", _page(results, _nothing)),
    ]
    return Guard(Starlette(routes=routes), names)


def _page(results: Results, make: MakePage) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        asked = _asked(request)
        html, status = await in_thread(_rendered, results, make, asked, dict(request.path_params))
        response = HTMLResponse(html.encode("utf-8", "replace"), status)
        if "lang" in request.query_params:
            response.set_cookie(LANGUAGE_COOKIE, asked.language, samesite="strict", max_age=365 * 24 * 3600)
        return response

    return answer


def _file(results: Results) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        path = request.query_params.get("path", "")
        try:
            layout = await in_thread(results.layout, request.path_params["run"])
            descriptor = await in_thread(open_inside, layout.directory, path)
        except ProctorError as error:
            asked = _asked(request)
            message = error.said(asked) if isinstance(error, NotFound) else error.message
            page = Page("message.html", asked.say("not found"), {"message": message}, status=404)
            return HTMLResponse(render(page, asked), page.status)
        return Download(descriptor, path.rpartition("/")[2], request)

    return answer


def _asked(request: Request) -> Asked:
    query = request.query_params
    language = language_of(
        query.get("lang"), request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", "")
    )
    return Asked(ServerLinks(), language, dict(query), tuple(query.getlist("run")))


def _rendered(results: Results, make: MakePage, asked: Asked, params: dict[str, Any]) -> tuple[str, int]:
    """Return a page as HTML; what is wrong is a page too."""
    try:
        page = make(results, asked, **params)
        return render(page, asked), page.status
    except NotFound as error:
        page = Page("message.html", asked.say("not found"), {"message": error.said(asked)}, status=404)
    except ProctorError as error:
        page = Page("message.html", asked.say("this cannot be shown"), {"message": error.message}, status=500)
    except Exception:  # a bug of ours: who started the viewer sees the trace, a reader does not
        _LOG.exception("the page `%s` %s cannot be made", make.__name__, params)
        message = asked.say("this is a bug of proctor: the terminal of the viewer says more")
        page = Page("message.html", asked.say("this cannot be shown"), {"message": message}, status=500)
    return render(page, asked), page.status


def _nothing(results: Results, asked: Asked, anything: str) -> Page:
    raise NotFound(asked.say("there is no such page"))


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("not found\n", 404, media_type="text/plain")
    content = files("proctor.viewer").joinpath("static", name).read_bytes()
    return Response(content, media_type=ASSETS[name])
