"""What scripts ask of a module's function and its parameters."""

import port_golden as golden
import pytest
import tvm

from relay_layout import relay
from relay_layout.port import port_source

_HEAD = "from relay_layout import relay\nmod = relay.transform.InferType()(mod)\n"
_LOOP = """for p in mod["main"].params:
    if p.{} not in params:
        show(p.{}.shape, p.{}.dtype)"""


def ported(text: str) -> str:
    found = port_source((_HEAD + text).encode(), has_name=golden.known)
    assert not found.not_carried
    return found.text.removeprefix(_HEAD)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_LOOP.format("name_hint", "type_annotation", "checked_type"), _LOOP.format("name", "ty", "ty")),
        (
            "{x.name_hint: x.checked_type.shape for x in mod['main'].params}",
            "{x.name: x.ty.shape for x in mod['main'].params}",
        ),
        ("f = mod['main']\nf.params[0].name_hint", "f = mod['main']\nf.params[0].name"),
        ("p = mod['main'].params[0]\np.checked_type", "p = mod['main'].params[0]\np.ty"),
        (
            "[p.checked_type.concrete_shape for p in mod['main'].params]",
            "[tuple(map(int, p.ty.shape)) for p in mod['main'].params]",
        ),
        (
            "for i, p in enumerate(mod['main'].params[1:]):\n    p.name_hint",
            "for i, p in enumerate(mod['main'].params[1:]):\n    p.name",
        ),
        (
            "[p.name_hint for k, (p, q) in zip(f, zip(mod['main'].params, g))]",
            "[p.name for k, (p, q) in zip(f, zip(mod['main'].params, g))]",
        ),
        ("mod['main'].ret_type", "mod['main'].ret_ty"),
        ("f = mod['main']\nf.checked_type", "f = mod['main']\nf.ty"),
    ],
)
def test_names_and_types_of_parameters(before: str, after: str) -> None:
    assert ported(before) == after
    assert ported(after) == after


@pytest.mark.parametrize(
    "text",
    [
        "for p in function.params:\n    p.name_hint",
        "f = relay.Function([x], x)\nf.params[0].name_hint, f.ret_type",
        "p = relay.var('x')\nfor p in mod['main'].params:\n    p.name_hint",
        "x.name_hint, x.checked_type",
        "mod[place].params[0].name_hint",
        "mod['main'].params[1:].name_hint",
        "for i, p in enumerate(mod['main'].params):\n    i.name_hint",
        "for p, q in zip(*[mod['main'].params]):\n    p.name_hint",
    ],
)
def test_what_may_be_an_expression_of_ours_stays(text: str) -> None:
    assert ported(text) == text


def test_an_f_string_is_rewritten_or_left_to_a_person() -> None:
    text = _HEAD + "for p in mod['main'].params:\n    print(f'{p.name_hint}')"
    found = port_source(text.encode(), has_name=golden.known)
    # Before Python 3.12 the places of what stands in it are unknown.
    if found.text == text:
        assert [place.name for place in found.not_carried] == ["name_hint"]
    else:
        assert found.text == text.replace("name_hint", "name")


def test_scripts_without_tvm_stay() -> None:
    text = "for p in config['main'].params:\n    p.name_hint"
    assert port_source(text.encode(), has_name=golden.known).text == text


def test_todays_words_say_it() -> None:
    x = relay.var("x", shape=(1, 3))
    main = tvm.IRModule.from_expr(relay.nn.softmax(x))["main"]
    (parameter,) = main.params
    assert (parameter.name, [int(extent) for extent in parameter.ty.shape]) == ("x", [1, 3])
    assert (str(parameter.ty.dtype), main.ret_ty, main.ty.ret) == ("float32", parameter.ty, parameter.ty)
