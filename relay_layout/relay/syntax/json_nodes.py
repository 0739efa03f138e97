"""The table of nodes that TVM's ``save_json`` writes, checked as it is read."""

import base64
import binascii
import json
import re
from typing import Any, NoReturn

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.params import read_tensor
from relay_layout.relay.syntax.source import shorten

_INDEX = re.compile(r"[0-9]{1,18}")
_INTEGER = re.compile(r"-?[0-9]{1,20}")


class NodeTable:
    """The nodes of one JSON document. Only nodes that are asked for are looked at."""

    def __init__(self, text: str, name: str, section: str = "", first_line: int = 1) -> None:
        """Read a document.

        ``section`` names the part of the file it stands in, and ``first_line`` is the line of the file that
        it starts on. Raises ModelError when the text is no JSON, or not of this form.
        """
        self.name = f"{name}: {section}" if section else name
        document = _parse(text, name, first_line)
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise ModelError(
                f"{self.name}: expected JSON written by tvm.ir.save_json, found no list of nodes"
            )
        self._nodes: list[Any] = document["nodes"]
        self._tensors = document.get("b64ndarrays", [])
        attrs = document.get("attrs")
        self.attrs = attrs if isinstance(attrs, dict) else {}
        if not isinstance(self._tensors, list):
            raise ModelError(f"{self.name}: expected 'b64ndarrays' to be a list")
        root = document.get("root")
        if type(root) is not int or not 0 <= root < len(self._nodes):
            raise ModelError(
                f"{self.name}: expected 'root' to be the index of one of the {len(self._nodes)} nodes"
            )
        self.root = root

    def error(self, index: int, message: str) -> ModelError:
        """The error to raise for a node."""
        node = self._nodes[index] if index < len(self._nodes) else None
        key = node.get("type_key") if isinstance(node, dict) else None
        label = f" ({shorten(key)})" if isinstance(key, str) and key else ""
        return ModelError(f"{self.name}: node {index}{label}: {message}")

    def type_key(self, index: int) -> str:
        """The type of a node; empty for the null node."""
        key = self._node(index).get("type_key")
        if not isinstance(key, str):
            self._fail(index, "expected a 'type_key'")
        return key

    def representation(self, index: int) -> str:
        """The text of a node that consists of text, such as a string or an operator."""
        node = self._node(index)
        text = node.get("repr_str", "")
        if "repr_b64" in node:
            try:
                # The text is stored with its length before it.
                text = base64.b64decode(node["repr_b64"], validate=True)[8:].decode()
            except (TypeError, ValueError):
                self._fail(index, "expected 'repr_b64' to be text in base64")
        if not isinstance(text, str):
            self._fail(index, "expected 'repr_str' to be text")
        return text

    def fields(self, index: int) -> dict[str, str]:
        """The fields of a node as they are stored."""
        fields = self._node(index).get("attrs", {})
        if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
            self._fail(index, "expected 'attrs' to map names to strings")
        return fields

    def field(self, index: int, field: str) -> str:
        """One field of a node as it is stored."""
        fields = self.fields(index)
        if field not in fields:
            self._fail(index, f"expected a field '{field}'")
        return fields[field]

    def integer(self, index: int, field: str) -> int:
        """A field that holds a number."""
        text = self.field(index, field)
        if not _INTEGER.fullmatch(text):
            self._fail(index, f"expected field '{field}' to be a number, found '{shorten(text)}'")
        value = int(text)
        if not -(2**63) <= value < 2**63:
            self._fail(index, f"expected field '{field}' to fit 64 bits, found {text}")
        return value

    def boolean(self, index: int, field: str) -> bool:
        """A field that holds 0 or 1."""
        text = self.field(index, field)
        if text not in ("0", "1"):
            self._fail(index, f"expected field '{field}' to be 0 or 1, found '{shorten(text)}'")
        return text == "1"

    def double(self, index: int, field: str) -> float:
        """A field that holds a floating point number."""
        text = self.field(index, field)
        try:
            # No double needs more; longer text is refused before it is converted.
            return float(text if len(text) <= 400 else "")
        except ValueError:
            self._fail(index, f"expected field '{field}' to be a number, found '{shorten(text)}'")

    def reference(self, index: int, field: str) -> int:
        """A field that holds the index of a node."""
        text = self.field(index, field)
        if not _INDEX.fullmatch(text):
            self._fail(index, f"expected field '{field}' to be the index of a node, found '{shorten(text)}'")
        return self._checked(index, int(text), f"field '{field}'")

    def text_reference(self, index: int, field: str) -> int | None:
        """The node that holds the text of a field, or None when the field itself is the text."""
        text = self.field(index, field)
        return self.reference(index, field) if _INDEX.fullmatch(text) else None

    def data(self, index: int) -> list[int]:
        """The nodes in a list or a map."""
        data = self._node(index).get("data", [])
        if not isinstance(data, list):
            self._fail(index, "expected 'data' to be a list")
        for entry in data:
            if type(entry) is not int:
                self._fail(index, "expected 'data' to hold indices of nodes")
            self._checked(index, entry, "'data'")
        return data

    def keys(self, index: int) -> list[str] | None:
        """The keys of a map from strings, or None when ``data`` holds keys and values in turn."""
        keys = self._node(index).get("keys")
        if keys is None:
            return None
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            self._fail(index, "expected 'keys' to be a list of strings")
        if len(keys) != len(self.data(index)):
            self._fail(index, f"expected as many values as keys: {len(keys)}, found {len(self.data(index))}")
        return keys

    def tensor(self, index: int, field: str) -> np.ndarray:
        """The tensor whose number a field holds."""
        number = self.integer(index, field)
        if not 0 <= number < len(self._tensors):
            self._fail(index, f"field '{field}' refers to tensor {number}; the file has {len(self._tensors)}")
        name = f"{self.name}: tensor {number}"
        try:
            data = base64.b64decode(self._tensors[number], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ModelError(f"{name}: expected base64, found other data") from None
        return read_tensor(data, name)

    def _node(self, index: int) -> dict[str, Any]:
        node = self._nodes[index]
        if not isinstance(node, dict):
            self._fail(index, "expected an object")
        return node

    def _checked(self, index: int, entry: int, where: str) -> int:
        if not 0 <= entry < len(self._nodes):
            self._fail(index, f"{where} refers to node {entry}; the file has {len(self._nodes)}")
        return entry

    def _fail(self, index: int, message: str) -> NoReturn:
        raise self.error(index, message)


def _parse(text: str, name: str, first_line: int) -> Any:
    try:
        return json.loads(text, parse_int=_parse_integer)
    except json.JSONDecodeError as error:
        line, column = first_line + error.lineno - 1, error.colno
        raise ModelError(f"{name}:{line}:{column}: expected JSON: {error.msg}") from None
    except RecursionError:
        raise ModelError(
            f"{name}: expected JSON written by tvm.ir.save_json, found lists nested too deep"
        ) from None
    except ValueError as error:
        raise ModelError(f"{name}: expected JSON: {error}") from None


def _parse_integer(text: str) -> int:
    # int() of a long text takes quadratic time.
    if len(text) > 20:
        raise ValueError("a number has more than 20 digits")
    return int(text)
