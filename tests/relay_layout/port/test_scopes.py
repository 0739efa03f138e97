"""Which binding a name means."""

import ast

import pytest

from relay_layout.port.scopes import Scopes


def meanings(text: str) -> list[str]:
    """What each ``use(name)`` in the text refers to: the imports that bind the name, or "other"."""
    tree = ast.parse(text)
    scopes = Scopes(tree)
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "use"
    ]
    names = [call.args[0] for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset))]
    found = []
    for name in names:
        assert isinstance(name, ast.Name)
        bindings = scopes.of(name).resolve(name.id)
        found.append("|".join(sorted({binding.origin or "other" for binding in bindings})) or "none")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b\nuse(a)", "a"),
        ("import a.b as c\nuse(c)", "a.b"),
        ("from a import b as c\nuse(c)", "a.b"),
        ("use(b)\nfrom a import b", "a.b"),
        ("from a import b\nfrom c import b\nuse(b)", "a.b|c.b"),
        ("from a import b\nb = 1\nuse(b)", "a.b|other"),
        ("from . import b\nuse(b)", "other"),
        ("from a import *\nuse(b)", "none"),
        ("from a import b\ndef f(b): use(b)", "other"),
        ("from a import b\ndef f(*b): use(b)", "other"),
        ("from a import b\ndef f(x=use(b)): b = 1", "a.b"),
        ("from a import b\ndef f(x: use(b)): b = 1", "a.b"),
        ("from a import b\n@use(b)\ndef f(b): pass", "a.b"),
        ("from a import b\nlambda b: use(b)", "other"),
        ("from a import b\nlambda x=use(b): 1", "a.b"),
        ("from a import b\ndef f():\n  def g(): use(b)\n  b = 1", "other"),
        ("from a import b\nclass C:\n  b = 1\n  use(b)", "other"),
        ("from a import b\nclass C:\n  b = 1\n  def f(self): use(b)", "a.b"),
        ("from a import b\nclass b: pass\nuse(b)", "a.b|other"),
        ("from a import b\n[use(b) for b in x]", "other"),
        ("from a import b\n[1 for b in use(b)]", "a.b"),
        ("from a import b\n[1 for x in y for b in use(b)]", "other"),
        ("from a import b\ndef f():\n  [b := 1 for x in y]\n  use(b)", "other"),
        ("from a import b\ndef f():\n  for b in x: use(b)", "other"),
        ("from a import b\ndef f():\n  with x as b: use(b)", "other"),
        ("from a import b\ndef f():\n  x, (b, *c) = y\n  use(b)", "other"),
        ("from a import b\ndef f():\n  try: pass\n  except E as b: use(b)", "other"),
        ("from a import b\ndef f():\n  b += 1\n  use(b)", "other"),
        ("from a import b\ndef f():\n  b: int\n  use(b)", "other"),
        ("from a import b\ndef f():\n  match x:\n    case {'k': 1, **b}: use(b)", "other"),
        ("from a import b\ndef f():\n  match x:\n    case [*b]: use(b)", "other"),
        ("from a import b\ndef f():\n  match x:\n    case C(y=b): use(b)", "other"),
        ("from a import b\ndef f():\n  global b\n  b = 1\nuse(b)", "a.b|other"),
        ("def f():\n  global b\n  from a import b\nuse(b)", "a.b"),
        ("def f():\n  from a import b\n  def g():\n    nonlocal b\n    b = 1\n  use(b)", "a.b|other"),
        ("from a import b\ndef f():\n  b = 1\n  def g():\n    global b\n    use(b)", "a.b"),
        ("from a import b\nasync def f():\n  async for b in x: use(b)", "other"),
    ],
)
def test_meaning(text: str, expected: str) -> None:
    assert meanings(text) == [expected], f"meanings({text!r})"


@pytest.mark.parametrize(
    ("text", "unconditional"),
    [
        ("import a", True),
        ("try:\n  import a\nexcept E: pass", True),
        ("with x:\n  import a", True),
        ("def f():\n  import a", True),
        ("if x:\n  import a", False),
        ("for y in x:\n  import a", False),
        ("try: pass\nexcept E:\n  import a", False),
        ("match x:\n  case 1:\n    import a", False),
    ],
)
def test_whether_an_import_is_certain(text: str, unconditional: bool) -> None:
    tree = ast.parse(text)
    scopes = Scopes(tree)
    (binding,) = [found for scope in scopes.all for found in scope.bindings.get("a", ())]
    assert binding.unconditional is unconditional
