"""A viewer that is served to a browser, and a window of that, which notes what a page of ours must not do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from viewer_rig import FLAG

from proctor.viewer.results import Results
from proctor.viewer.serve import listen, server_of

Open = Callable[..., "Window"]
"""Opens a window: `opened(own, **context)`; `own` is how every address begins that a page may ask for."""


@dataclass
class Served:
    """A viewer that runs in a thread of its own."""

    address: str
    server: uvicorn.Server
    thread: threading.Thread

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join()


def serving(root: Path) -> Served:
    listening = listen("127.0.0.1", 0)
    server = server_of(Results(root))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    return Served(f"http://127.0.0.1:{listening.getsockname()[1]}", server, thread)


@dataclass
class Window:
    """A page of the browser, and all that it did which a page of ours must not do."""

    page: Any
    own: str
    place: Path
    """Where screenshots go."""
    taken: Callable[[Path], None]
    """Is told of each."""
    faults: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", lambda message: self.faults.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("popup", lambda _: self.faults.append("a window was opened"))
        self.page.on("request", lambda request: self._asks(request.url))

    def _asks(self, url: str) -> None:
        if not url.startswith((self.own, "data:,")):
            self.faults.append(f"request to {url}")

    def shoot(self, name: str) -> None:
        """Keep what the page looks like."""
        path = self.place / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        self.taken(path)

    def is_clean(self) -> None:
        assert self.page.evaluate(f"window.{FLAG}") is None, "text was run as a script"
        assert self.faults == []
