"""Import statements, one by one."""

import pytest

from relay_layout.port import port_source

_HERE = {
    "relay.astext",
    "relay.Call",
    "relay.build_module",
    "relay.expr",
    "relay.expr.Call",
    "relay.graph_executor",
    "relay.graph_executor.GraphModule",
    "relay.nn",
    "relay.op",
    "relay.testing",
    "relay.transform",
    "relay.var",
    "tvm.te",
    "tvm.runtime",
    "tvm.runtime.empty",
    "tvm.runtime.tensor",
    "tvm.support.utils",
    "tvm.target",
    "tvm.tirx",
    "tvm.transform.PassContext",
}


def ported(text: str) -> str:
    return port_source(text.encode(), has_name=_HERE.__contains__).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from tvm import relay", "from relay_layout import relay"),
        ("from tvm import relay as r", "from relay_layout import relay as r"),
        ("import tvm.relay as relay", "from relay_layout import relay"),
        ("import tvm.relay as r, os", "from relay_layout import relay as r\nimport os"),
        ("from tvm import te, relay", "from relay_layout import relay\nfrom tvm import te"),
        ("from tvm import relay, te", "from relay_layout import relay\nfrom tvm import te"),
        ("from tvm import te, relay, target", "from relay_layout import relay\nfrom tvm import te, target"),
        ("from tvm import te, relay, nowhere", "from relay_layout import relay\nfrom tvm import te, nowhere"),
        ("from tvm import relay, nowhere", "from relay_layout import relay\nfrom tvm import nowhere"),
        ("from tvm import (relay, te)", "from relay_layout import relay\nfrom tvm import (te)"),
        ("from tvm import (te, relay)", "from relay_layout import relay\nfrom tvm import (te)"),
        ("from tvm import (te, relay,)", "from relay_layout import relay\nfrom tvm import (te, )"),
        ("from tvm import (te,\n  relay,\n)", "from relay_layout import relay\nfrom tvm import (te,\n)"),
        (
            "from tvm import (te,  # b\n  relay)",
            "from relay_layout import relay\nfrom tvm import (te,  # b\n  )",
        ),
        ("from tvm import te, relay  # c", "from relay_layout import relay\nfrom tvm import te  # c"),
        (
            "import os; from tvm import te, relay",
            "import os; from relay_layout import relay; from tvm import te",
        ),
        (
            "if 1:\n\tfrom tvm import te, relay",
            "if 1:\n\tfrom relay_layout import relay\n\tfrom tvm import te",
        ),
        ("from tvm import tir", "from tvm import tirx as tir"),
        ("from tvm import nd", "from tvm import runtime as nd"),
        ("from tvm.nd import array, empty", "from tvm.runtime import tensor as array, empty"),
        ("from tvm.contrib import utils", "from tvm.support import utils"),
        ("import tvm.contrib.utils", "import tvm.support.utils"),
        ("from tvm.contrib import graph_executor", "from relay_layout.relay import graph_executor"),
        ("from tvm.contrib import graph_runtime as g", "from relay_layout.relay import graph_executor as g"),
        (
            "from tvm.contrib.graph_executor import GraphModule",
            "from relay_layout.relay.graph_executor import GraphModule",
        ),
        ("from tvm.relay import testing", "from relay_layout.relay import testing"),
        ("from tvm.relay import build_config", "from tvm.transform import PassContext as build_config"),
        ("from tvm.relay.expr import Call", "from relay_layout.relay import Call"),
        ("from tvm.relay import expr as E", "from relay_layout.relay import expr as E"),
        ("from tvm.relay.nn import *", "from relay_layout.relay.nn import *"),
        ("import tvm\nimport tvm.relay.testing\n", "import tvm\n"),
        ("import tvm.relay.testing", "import tvm"),
        ("import tvm.relay.testing, os", "import tvm, os"),
        ("import tvm\ndef f():\n    import tvm.relay\n", "import tvm\ndef f():\n    import tvm\n"),
        ("from . import relay", "from . import relay"),
        ("from .tvm import relay", "from .tvm import relay"),
        ("from tvmc import relay", "from tvmc import relay"),
        ("import tvm", "import tvm"),
    ],
)
def test_import(before: str, after: str) -> None:
    assert ported(before) == after, f"relay-layout port <(printf %s {before!r})"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from tvm import micro", "tvm.micro"),
        ("import tvm.micro as small", "tvm.micro"),
        ("from tvm.relay.quantize import realize", "relay.quantize.realize"),
        ("from tvm.relay.prelude import Prelude", "relay.prelude.Prelude"),
        ("from tvm.relay.nowhere import *", "relay.nowhere"),
        ("from tvm import *", "from tvm import *"),
    ],
)
def test_an_import_of_what_is_gone_stays(text: str, name: str) -> None:
    found = port_source(text.encode(), has_name=_HERE.__contains__)
    assert found.text == text
    assert [place.name for place in found.not_carried] == [name]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import tvm\ntvm.relay.var\n", "import tvm\nfrom relay_layout import relay\nrelay.var\n"),
        ("import tvm  # c\ntvm.relay.var", "import tvm  # c\nfrom relay_layout import relay\nrelay.var"),
        ("import tvm; tvm.relay.var", "from relay_layout import relay\nimport tvm; relay.var"),
        (
            "import tvm\ntvm.relay.var\nfrom tvm import relay\n",
            "import tvm\nfrom relay_layout import relay\nrelay.var\nfrom relay_layout import relay\n",
        ),
        (
            "import tvm\nfrom tvm import relay\ntvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay\nrelay.var\n",
        ),
        (
            "import tvm\nimport tvm.relay as r\ntvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay as r\nr.var\n",
        ),
        (
            '"""Doc."""\nfrom __future__ import division\n\n\n@a\ndef f():\n'
            "    import tvm\n    tvm.relay.var\n",
            '"""Doc."""\nfrom __future__ import division\n\n\nfrom relay_layout import relay\n@a\ndef f():\n'
            "    import tvm\n    relay.var\n",
        ),
        (
            "import tvm\nif 0:\n    from tvm import relay\ntvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay\n"
            "if 0:\n    from relay_layout import relay\nrelay.var\n",
        ),
        (
            "import tvm\nrelay = 1\ntvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay as relay_today\nrelay = 1\nrelay_today.var\n",
        ),
        (
            "import tvm\ntvm.relay.var\nrelay.var\n",
            "import tvm\nfrom relay_layout import relay as relay_today\nrelay_today.var\nrelay.var\n",
        ),
        (
            "import tvm\nrelay = relay_today = 1\ntvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay as relay_today1\n"
            "relay = relay_today = 1\nrelay_today1.var\n",
        ),
        (
            "from tvm import relay\nrelay.build_config()\n",
            "from relay_layout import relay\nimport tvm\ntvm.transform.PassContext()\n",
        ),
        (
            "import tvm.relay\ndef f(relay):\n    tvm.relay.var\n",
            "import tvm\nfrom relay_layout import relay as relay_today\ndef f(relay):\n    relay_today.var\n",
        ),
    ],
)
def test_an_import_is_added_where_it_is_needed(before: str, after: str) -> None:
    assert ported(before) == after, f"relay-layout port <(printf %s {before!r})"
