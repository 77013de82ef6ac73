"""Small faults in the text of a module, one at a time: what tests do not notice they do not test."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.LShift: ast.RShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_DOING = ast.Expr | ast.Assign | ast.AugAssign | ast.Delete | ast.Raise | ast.Continue
"""Statements that can be left out."""


class Mutant(NamedTuple):
    """A module with one fault."""

    line: int
    change: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its lines.

    >>> [(each.line, each.change) for each in mutants("def f(x):\\n    return x < 3\\n")]
    [(2, '< becomes <='), (2, '3 becomes 4')]
    """
    tree = ast.parse(source)
    ignored = _texts_and_types(tree)
    for node in ast.walk(tree):
        if node not in ignored:
            for change, undo in _changes(node):
                yield Mutant(getattr(node, "lineno", 0), change, ast.unparse(ast.fix_missing_locations(tree)))
                undo()
    parents = [(node, name, block) for node in ast.walk(tree) for name, block in ast.iter_fields(node)]
    for _, _, block in parents:
        if isinstance(block, list) and block and all(isinstance(each, ast.stmt) for each in block):
            yield from _omissions(tree, block)


def _omissions(tree: ast.Module, block: list[ast.stmt]) -> Iterator[Mutant]:
    """Statements that do something are left out."""
    for place, statement in enumerate(block):
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, _DOING) and not is_docstring and not _is_declaration(statement):
            block[place] = ast.copy_location(ast.Pass(), statement)
            yield Mutant(statement.lineno, f"without {ast.unparse(statement)[:60]}", ast.unparse(tree))
            block[place] = statement


def _is_declaration(statement: ast.stmt) -> bool:
    """Slots, type variables and the like, at the outermost level or in a class: no behaviour."""
    return (
        isinstance(statement, ast.Assign)
        and statement.col_offset in (0, 4)
        and isinstance(statement.targets[0], ast.Name)
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], object]]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        before = node.ops[0]
        after = _COMPARISONS[type(before)]()
        node.ops[0] = after
        yield f"{_sign(before)} becomes {_sign(after)}", lambda: node.ops.__setitem__(0, before)
    elif isinstance(node, ast.BoolOp):
        before_op = node.op
        node.op = ast.Or() if isinstance(before_op, ast.And) else ast.And()
        yield "and becomes or, or or and", lambda: setattr(node, "op", before_op)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        before_unary, before_operand = node.op, node.operand
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [before_operand], [])

        def undo() -> None:
            node.op, node.operand = before_unary, before_operand

        yield "not is left out", undo
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        before_arithmetic = node.op
        node.op = _ARITHMETIC[type(before_arithmetic)]()
        yield (
            f"{type(before_arithmetic).__name__} becomes {type(node.op).__name__}",
            lambda: setattr(node, "op", before_arithmetic),
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + 1
        yield f"{value} becomes {node.value}", lambda: setattr(node, "value", value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in _CALLS:
        name = node.id
        node.id = _CALLS[name]
        yield f"{name} becomes {node.id}", lambda: setattr(node, "id", name)


def _sign(operator: ast.cmpop) -> str:
    comparison = ast.Compare(ast.Name("a"), [operator], [ast.Name("b")])
    return ast.unparse(comparison)[2:-2]


def _texts_and_types(tree: ast.Module) -> set[ast.AST]:
    """Annotations and settings, whose change breaks no promise."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.arg):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        if isinstance(node, ast.ClassDef):  # and defaults of its fields, which are settings
            parts += [*node.keywords, *(each.value for each in node.body if isinstance(each, ast.AnnAssign))]
        for part in parts:
            if part is not None:
                found.update(ast.walk(part))
    return found
