"""The ``#[metadata]`` section, written in the JSON form of TVM."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from relay_layout.relay.syntax.tensor_blob import write_blob
from relay_layout.relay.syntax.tree import AttributeValue, Constant

_NULL = "0"


class MetadataWriter:
    """Collects what text refers to as ``meta[type][index]``."""

    def __init__(self) -> None:
        self._nodes: list[dict[str, Any]] = [{"type_key": ""}, {"type_key": "Map"}]
        self._tensors: list[str] = []
        self._lists: dict[str, list[int]] = {}
        self._constants: dict[int, str] = {}
        self._device: int | None = None

    def constant(self, constant: Constant) -> str:
        """The reference to a constant; the same for the same object.

        Raises ModelError for data types that Relay does not have.
        """
        if id(constant) not in self._constants:
            self._constants[id(constant)] = self._refer("relay.Constant", self._constant_node(constant))
        return self._constants[id(constant)]

    def value(self, value: AttributeValue) -> str:
        """The reference to a value that text cannot spell: a map, or text with a quotation mark."""
        node = self._value_node(value)
        return self._refer(self._nodes[node]["type_key"], node)

    def section(self) -> str:
        """The section with its heading; empty when nothing refers to it."""
        if not self._lists:
            return ""
        root = self._nodes[1]
        root["keys"] = list(self._lists)
        root["data"] = [self._add("Array", data=nodes) for nodes in self._lists.values()]
        document: dict[str, Any] = {"root": 1, "nodes": self._nodes}
        if self._tensors:
            document["b64ndarrays"] = self._tensors
        return "\n#[metadata]\n" + json.dumps(document, indent=2) + "\n"

    def _refer(self, key: str, node: int) -> str:
        nodes = self._lists.setdefault(key, [])
        nodes.append(node)
        return f"meta[{key}][{len(nodes) - 1}]"

    def _add(self, key: str, **entries: Any) -> int:
        self._nodes.append({"type_key": key, **{name: entry for name, entry in entries.items() if entry}})
        return len(self._nodes) - 1

    def _constant_node(self, constant: Constant) -> int:
        self._tensors.append(base64.b64encode(write_blob(constant.data)).decode())
        if self._device is None:
            # TVM's own reader insists on a device for every expression, known or not.
            fields = {
                "device_type_int": "-1",
                "memory_scope": str(self._add("runtime.String")),
                "target": _NULL,
                "virtual_device_id": "-1",
            }
            self._device = self._add("VirtualDevice", attrs=fields)
        fields = {
            "_checked_type_": _NULL,
            "data": str(len(self._tensors) - 1),
            "span": _NULL,
            "virtual_device_": str(self._device),
        }
        return self._add("relay.Constant", attrs=fields)

    def _value_node(self, value: AttributeValue) -> int:
        if value is None:
            return 0
        if isinstance(value, Constant):
            return self._constant_node(value)
        if isinstance(value, str):
            return self._add("runtime.String", repr_str=value)
        if isinstance(value, tuple):
            return self._add("Array", data=[self._value_node(item) for item in value])
        if isinstance(value, Mapping):
            data = [self._value_node(item) for item in value.values()]
            return self._add("Map", keys=list(value), data=data)
        if isinstance(value, bool):
            return self._number("IntImm", "bool", str(int(value)))
        if isinstance(value, int):
            fits = -(2**31) <= value < 2**31
            return self._number("IntImm", "int32" if fits else "int64", str(value))
        return self._number("FloatImm", "float64", repr(value))

    def _number(self, key: str, dtype: str, value: str) -> int:
        return self._add(key, attrs={"dtype": dtype, "span": _NULL, "value": value})
