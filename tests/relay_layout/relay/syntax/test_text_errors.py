"""What is wrong with a text, where, and what should stand there."""

import pytest

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import read_text

DTYPES = (
    "bfloat16, bool, float16, float32, float64, int16, int32, int4, int64, int8, uint16, uint32, uint4, "
    "uint64, uint8"
)
VALUE = 'the value of an attribute: a number, a "string", True, False, None or a [list]'

FILES = {
    "": "1:1: expected a function such as def @main(%x: Tensor[(1, 3), float32]) { ... }, "
    "found the end of the file",
    "hello": "1:1: expected '(' after the operator 'hello', found the end of the file; "
    "variables start with '%'",
    "def main() { 1 }": "1:5: expected the name of a function, such as @main, found 'main'",
    "def @main(%x: float33) { %x }": f"1:15: expected a data type, found 'float33'; known are {DTYPES}",
    "def @main(%x: Tensor[(1, -2), int8]) { 1 }": "1:26: expected a dimension of zero or more, found '-2'",
    "def @main(%x: Tensor[(4294967296, 0, 4294967296), int8]) { 1 }": "1:22: expected a shape whose tensor "
    "can exist: this one has too many elements",
    "def @main(%x, %x) { 1 }": "1:15: parameter %x is there twice",
    "def @main() { 1 }\ndef @main() { 2 }": "2:5: function @main is defined twice",
    "def @main[A](%x: A) { %x }": "1:10: type parameters are not supported",
    "type List[A] {}": "1:1: algebraic data types ('type') are not supported",
    "#[version = 0.0.5]": "1:1: expected #[version = \"0.0.5\"] or #[metadata], found '#'",
    "def @main() { 1": "1:16: expected '}', found the end of the file",
    "def @main() { 1 } }": "1:19: expected 'def' or the end of the file, found '}'",
    "def @main() { meta[relay.Constant][0] }": "1:15: meta[relay.Constant][0] is not in the file, which has "
    "no #[metadata] section; print the module with astext(show_meta_data=True)",
    'def @main() { 1 }\n#[metadata]\n{"root": 1,\n "nodes": [}': "4:12: expected JSON: Expecting value",
}
BODIES = {
    "nn.relu(%y)": "2:11: variable %y is not defined before it is used here",
    "%0 = nn.relu(%x)\n  %0": "3:3: expected ';', found '%0'",
    "nn.relu(%0)": "2:11: %0 is not defined before it is used here",
    "%0 = 1; %0 = 2; %0": "2:11: %0 is defined twice in this block",
    "nn.relu": "2:3: expected '(' after the operator 'nn.relu', found '}'; variables start with '%'",
    "nn.relu(%x, axis=1, %x)": "2:23: expected an attribute 'name=value' or ')', found '%x'",
    "nn.relu(%x, axis=1, axis=2)": "2:23: attribute 'axis' is given twice",
    "nn.relu(%x, axis=float32)": f"2:20: expected {VALUE}, found 'float32'",
    "nn.relu(%x %x)": "2:14: expected ')' or ',', found '%x'",
    "%x + ": "3:1: expected an expression, found '}'",
    "%x + * %x": "2:8: expected an expression, found '*'",
    "@other(%x)": "2:3: function @other is not defined in this file",
    "match (%x) {}": "2:3: algebraic data types ('match') are not supported",
    "let x = 1; %x": "2:7: expected a variable such as %x, found 'x'",
    "if (%x) { 1 }": "3:1: expected 'else', found '}'",
    "/* comment": "2:3: expected '*/' to end this comment, found the end of the file",
    'f(a="text)': "2:7: expected '\"' to end this string, found the end of the file",
    "12abc": "2:3: expected a number such as 1, 1i64, 2f or 1e-05f, found '12abc'",
    "1i7": "2:3: expected a number with one of the suffixes i8, i16, i32, i64, found '1i7'",
    "99999999999999999999": "2:3: expected an integer that fits int64, found '99999999999999999999'",
    "1e99f": "2:3: expected a number that fits float32, found '1e99f'",
    "%x.99999999999": "2:3: expected the index of a field, found a larger number",
    "nn.relu(%x));": "2:14: expected '}', found ')'",
    "% x": "2:3: expected a name after '%'",
    "$": "2:3: expected Relay text, found the character '$'",
    f"{'(' * 300}1": "2:203: expected expressions that nest at most 200 deep; bind inner ones "
    "with '%0 = ...;'",
    f"f(a={'[' * 300}": "2:72: expected a list that nests at most 64 deep",
    f"fn (%x: {'(' * 300}": "2:76: expected a type that nests at most 64 deep",
}


@pytest.mark.parametrize("text", FILES)
def test_file(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_text(text, "net.relay")
    assert str(caught.value) == f"net.relay:{FILES[text]}"


@pytest.mark.parametrize("text", BODIES)
def test_body(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_text(f"def @main(%x: float32) {{\n  {text}\n}}\n", "net.relay")
    assert str(caught.value) == f"net.relay:{BODIES[text]}"


METADATA = """def @main() { op(meta[relay.Constant][REFERENCE], axis=meta[Array][0]) }
#[metadata]
{"root": 1, "nodes": [
  {"type_key": ""},
  {"type_key": "Map", "keys": ["relay.Constant", "Array"], "data": [2, 5]},
  {"type_key": "Array", "data": [3, 4]},
  {"type_key": "relay.Constant", "attrs": {"data": "7"}},
  {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "3"}},
  {"type_key": "Array", "data": [6]},
  {"type_key": "Array", "data": [4, 4]}
]}"""


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "0",
            "net.relay: metadata: node 3 (relay.Constant): field 'data' refers to tensor 7; the file has 0",
        ),
        ("1", "net.relay:1:18: expected a constant, found meta[relay.Constant][1]"),
        (
            "2",
            "net.relay:1:18: meta[relay.Constant][2] is not in the #[metadata] section, "
            "which has 2 of its type",
        ),
    ],
)
def test_metadata(reference: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_text(METADATA.replace("REFERENCE", reference), "net.relay")
    assert str(caught.value) == message


def test_attribute_from_the_metadata_section() -> None:
    text = METADATA.replace("meta[relay.Constant][REFERENCE], ", "")
    body = read_text(text).functions["main"].body
    assert body.attrs == {"axis": (3, 3)}  # type: ignore[union-attr]


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ModelError, match=r"^net: expected text in UTF-8, found other data at byte 4$"):
        read_text(b"def \xff", "net")
