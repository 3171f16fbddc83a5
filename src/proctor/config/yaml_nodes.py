"""The nodes of a YAML file, with their lines; everything that is YAML and not understood here is an error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

DEPTH_AT_MOST = 60
"""So deep may values be in each other."""


class BadYaml(Exception):
    """What is wrong with a file, in words that repeat none of its values, and the line, counted from 1."""

    def __init__(self, message: str, line: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


@dataclass(slots=True)
class Scalar:
    """Text, and whether it stands there without quotes."""

    line: int
    text: str
    plain: bool


@dataclass(slots=True)
class Sequence:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list["Node"])
    whole: bool = False


@dataclass(slots=True)
class Mapping:
    """Keys and values in their order."""

    line: int
    items: list[tuple[Node, Node]] = field(default_factory=list["tuple[Node, Node]"])
    whole: bool = False
    key: Node | None = None


Node = Scalar | Sequence | Mapping

_TEXT_TAGS = {"!", "tag:yaml.org,2002:str"}
_PLAIN_TAGS = {None, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_ALIAS_HINT = "write the block that is shared before what refers to it, as `&name` and `*name`; quote a text with `*`"


def nodes_of(text: str) -> Node | None:
    """Return the one document of a YAML text, or None where there is none. Raises `BadYaml`."""
    parser: Any = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be used again, says YAML
            return _Composer().composed(parser.parse(text))
    except ReaderError as caught:
        refused: Any = caught
        # Its position counts the characters that were read in part only.
        at = next((place for place, sign in enumerate(text) if ord(sign) == refused.character), 0)
        raise BadYaml(
            f"the character U+{refused.character:04X} is not allowed in YAML", text.count("\n", 0, at) + 1
        ) from None
    except MarkedYAMLError as caught:
        error: Any = caught
        mark: Any = error.problem_mark or error.context_mark
        line = min(mark.line, max(0, text.rstrip("\n").count("\n"))) + 1 if mark else 1
        raise BadYaml(*_wording(error, text, line)) from None
    except (YAMLError, ValueError) as caught:
        raise BadYaml("it is not valid YAML", 1) from caught


def _wording(error: Any, text: str, line: int) -> tuple[str, int, str | None]:
    """Say what the parser stumbled over; what is quoted there may be a part of a value, and is left out."""
    problem = str(error.problem or "it is not valid YAML")
    if "\\t" in problem or _indented_by_tab(text, line):
        return "a tab stands where only spaces may", line, "indent with spaces"
    # Quoted there are single signs, tokens such as '<block end>', and what was typed.
    said = re.sub(r"'([^']*)'", lambda found: found[0] if _is_sign(found[1]) else "something", problem)
    if "mapping values are not allowed" in said:
        return (
            "a `: ` stands where no value can begin",
            line,
            "quote a text that holds `: `, and look at the indentation",
        )
    if "could not find expected ':'" in said:
        began: Any = error.context_mark
        return "expected `key: value`", began.line + 1 if began else line, "look for a missing `:`, and the indentation"
    if re.search(r"[\[{].*\$\{", "".join(text.split("\n")[line - 1 : line])):
        return "not valid YAML: `${` needs quotes inside of brackets", line, "write `'${NAME}'` there"
    return f"not valid YAML: {said}", line, "look at the indentation, the quotes and the brackets just before"


def _is_sign(text: str) -> bool:
    return len(text) <= 1 or (text.startswith("<") and text.endswith(">"))


def _indented_by_tab(text: str, line: int) -> bool:
    return any(re.match(r" *\t", near) for near in text.split("\n")[max(0, line - 2) : line])


class _Composer:
    """Makes nodes of the parser's events."""

    def __init__(self) -> None:
        self._root: Node | None = None
        self._documents = 0
        self._anchors: dict[str, Node] = {}
        self._open: list[Sequence | Mapping] = []

    def composed(self, stream: Iterator[Any]) -> Node | None:
        """Return the root of the document."""
        for event in stream:
            line = event.start_mark.line + 1
            if isinstance(event, events.DocumentStartEvent):
                self._begin_document(event, line)
            elif isinstance(event, events.AliasEvent):
                alias: Any = event
                self._put(self._anchored(str(alias.anchor), line))
            elif isinstance(event, events.ScalarEvent):
                self._put(self._named(event, _scalar(event, line)))
            elif isinstance(event, events.SequenceStartEvent | events.MappingStartEvent):
                self._begin(event, line)
            elif isinstance(event, events.SequenceEndEvent | events.MappingEndEvent):
                self._open.pop().whole = True
        return self._root

    def _begin_document(self, event: Any, line: int) -> None:
        if self._documents:
            raise BadYaml("a second document begins here", line, "one file holds one document: leave the `---` out")
        if event.version not in (None, (1, 2)):
            raise BadYaml("the file asks for another version of YAML", line, "leave `%YAML` out: files are YAML 1.2")
        self._documents += 1

    def _begin(self, event: Any, line: int) -> None:
        if _tag(event) not in _PLAIN_TAGS:
            raise _tagged(line)
        if len(self._open) >= DEPTH_AT_MOST:
            raise BadYaml(f"values are more than {DEPTH_AT_MOST} deep in each other here", line)
        is_list = isinstance(event, events.SequenceStartEvent)
        node = Sequence(line) if is_list else Mapping(line)
        self._put(self._named(event, node))
        self._open.append(node)

    def _named(self, event: Any, node: Node) -> Node:
        if event.anchor:
            self._anchors[str(event.anchor)] = node
        return node

    def _anchored(self, name: str, line: int) -> Node:
        node = self._anchors.get(name)
        if node is None:
            raise BadYaml("an alias (`*`) refers to an anchor that is not there", line, _ALIAS_HINT)
        if not isinstance(node, Scalar) and not node.whole:
            raise BadYaml("an alias (`*`) stands inside of what it refers to, which would have no end", line)
        return node

    def _put(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        around = self._open[-1]
        if isinstance(around, Sequence):
            around.items.append(node)
        elif around.key is None:
            around.key = node
        else:
            around.items.append((around.key, node))
            around.key = None


def _scalar(event: Any, line: int) -> Scalar:
    tag = _tag(event)
    if tag not in _TEXT_TAGS and tag is not None:
        raise _tagged(line)
    return Scalar(line, _whole(event.value, line), plain=event.style is None and tag is None)


def _whole(text: str, line: int) -> str:
    """Return a text whose characters are whole: `"\\ud83d\\ude00"` is one, as in JSON."""
    if not any("\ud800" <= sign <= "\udfff" for sign in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise BadYaml("half a character stands here (`\\ud800` to `\\udfff`)", line, "write the whole one") from None


def _tag(event: Any) -> str | None:
    return str(event.ctag) if event.ctag else None


def _tagged(line: int) -> BadYaml:
    return BadYaml("a tag (`!`) is not understood", line, "leave it out; quote a text that begins with `!`")
