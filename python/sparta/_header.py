"""sparta.h, read when the package is imported: the header itself is the binding, so that the two cannot disagree.

The header is plain: enums, structs, opaque handles and prototypes, each a typedef or a declaration that ends with a semicolon. Comments and the
preprocessor's lines are dropped, and what is left becomes ctypes: a struct is a Structure, an opaque handle a class of its own (so that a package
cannot be given where a session is asked for), an enum a class of integers. What cannot be read is an error here, not a crash in a call.
"""

import ctypes as c
import os
import re
import types

_PLAIN = {
    "char": c.c_char, "int": c.c_int, "unsigned": c.c_uint, "long": c.c_long, "double": c.c_double, "float": c.c_float, "size_t": c.c_size_t,
    "int64_t": c.c_int64, "uint64_t": c.c_uint64, "int32_t": c.c_int32, "uint32_t": c.c_uint32, "uint16_t": c.c_uint16, "uint8_t": c.c_uint8,
}  # fmt: skip


_NEEDED = ("path", "name")  # texts that nothing may be without


def text(value, name="it"):
    """What C takes as a text, or None. ctypes itself takes a number as the address of one, and cuts a text at its first zero byte without a word."""
    if value is None and name not in _NEEDED:
        return None
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is a text (str, bytes or a path), not {type(value).__name__}")
    value = os.fsencode(value)
    if b"\0" in value:
        raise ValueError(f"a text with a zero byte at {value.index(0)}, where it would be cut: {value[:80]!r}")
    return value


class _WithTexts(c.Structure):
    def __setattr__(self, name, value):
        super().__setattr__(name, text(value, name) if name in self._texts_ else value)


class Header:
    """types[name]: a ctypes type or an enum's class; functions[name]: (result, [argument types]); texts[name]: [(place, name)] of its texts."""

    def __init__(self, text):
        self.types, self.functions, self.texts, self.numbers = dict(_PLAIN), {}, {}, {}
        for name, value in re.findall(r"^#define (SPARTA_\w+)[ \t]+(\d+)\b", text, re.M):
            self.numbers[name] = int(value)
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"\\\n", " ", text)
        # The C++ half has templates and braces of its own.
        text = re.sub(r"^#ifdef __cplusplus\n(.*?)^#(else|endif)", r"#\2", text, flags=re.S | re.M)
        text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
        text = re.sub(r"\bSPARTA_(API|MUST)\b", "", text)
        for declaration in self._declarations(text):
            self._declare(declaration)

    @staticmethod
    def _declarations(text):
        start = depth = 0
        for mark in re.finditer(r"[{};]", text):
            depth += (mark[0] == "{") - (mark[0] == "}")
            if mark[0] == ";" and not depth:
                yield " ".join(text[start : mark.start()].split())
                start = mark.end()

    def _declare(self, d):
        enum = re.fullmatch(r"typedef enum (\w+) \{(.*)\} \w+", d)
        struct = re.fullmatch(r"typedef struct (\w+) \{(.*)\} \w+", d)
        opaque = re.fullmatch(r"typedef struct (\w+) \w+", d)
        function = re.fullmatch(r"(.*?[ *])(sparta_\w+)\((.*)\)", d)
        if enum:
            self._enum(*enum.groups())
        elif struct:
            self._struct(*struct.groups())
        elif opaque:
            self.types[opaque[1]] = type(opaque[1], (c.c_void_p,), {})
        elif function:
            arguments = [] if function[3] == "void" else [self._fields(a)[0] for a in self._split(function[3])]
            # An array as an argument is a pointer; none is passed by value.
            self.functions[function[2]] = (self._type(function[1]), [kind for _, kind in arguments])
            # A char * that is not const is memory for an answer.
            const = [a.startswith("const") for a in self._split(function[3])]
            self.texts[function[2]] = [(i, name) for i, (name, kind) in enumerate(arguments) if kind is c.c_char_p and const[i]]
        else:
            raise ValueError(f"sparta.h: cannot read {d[:80]!r}")

    def _enum(self, name, body):
        value, words = 0, {}
        for word in filter(None, (w.strip() for w in body.split(","))):
            word, _, given = (w.strip() for w in word.partition("="))
            value = int(given) if given else value
            words[word] = value
            value += 1
        self.types[name] = c.c_int
        self.numbers.update(words)
        setattr(self, name, types.SimpleNamespace(**{w.removeprefix("SPARTA_"): v for w, v in words.items()}))

    def _struct(self, name, body):
        fields = [f for d in self._declarations(body + ";") if d for f in self._fields(d)]
        texts = {field for field, kind in fields if kind is c.c_char_p or getattr(kind, "_type_", None) is c.c_char}
        self.types[name] = type(name, (_WithTexts if texts else c.Structure,), {"_fields_": fields, "_texts_": texts})

    @staticmethod
    def _split(text):
        """By commas that are not inside parentheses."""
        parts, depth = [""], 0
        for letter in text:
            depth += (letter == "(") - (letter == ")")
            if letter == "," and not depth:
                parts.append("")
            else:
                parts[-1] += letter
        return [p.strip() for p in parts]

    def _fields(self, declaration):
        """`const char *a, *b`, `int64_t dim[8]`, `void (*fn)(void *, int)` -> [(name, type)]."""
        call = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", declaration)
        if call:
            result, name, arguments = call.groups()
            return [(name, c.CFUNCTYPE(self._type(result), *(self._fields(a)[0][1] for a in self._split(arguments))))]
        base = re.match(r"((?:const |struct |enum )*\w+(?: const\b)?)\s*(.*)", declaration)
        fields = []
        for declarator in self._split(base[2]):
            stars, name, count = re.fullmatch(r"((?:\*|const\b|\s)*)(\w*)(?:\[(\w*)\])?", declarator).groups()
            kind = self._type(base[1] + stars.replace(" ", ""))
            if count:
                kind = kind * (int(count) if count.isdigit() else self.numbers[count])
            fields.append((name, kind))
        return fields

    def _type(self, text):
        text = re.sub(r"\b(const|struct|enum)\b", "", text).replace(" ", "")
        name, stars = text.rstrip("*"), text.count("*")
        if name == "void":
            return None if not stars else c.c_void_p if stars == 1 else c.POINTER(c.c_void_p)
        kind = self.types[name]
        if name == "char" and stars:
            kind, stars = c.c_char_p, stars - 1
        elif isinstance(kind, type) and issubclass(kind, c.c_void_p) and stars:
            stars -= 1  # a handle is its pointer
        for _ in range(stars):
            kind = c.POINTER(kind)
        return kind
