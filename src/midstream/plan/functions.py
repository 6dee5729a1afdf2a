"""The function table: every operator and scalar function an expression may call, what it takes and what it gives.

    resolve(name, arguments) -> look up -> count -> adapt each argument to its kind -> rule -> typed expression

A function gives NULL when an argument is NULL, unless a comment in the table says otherwise, and NULL for an undefined
value.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.types import INTERVAL, TIMESTAMP, is_number, is_temporal, type_name
from midstream.plan.arithmetic import add, multiply, negative, plain, remainder, rounded, subtract, whole_quotient
from midstream.plan.coerce import convert, read_instant, settle, unify
from midstream.plan.expr import BETWEEN, CASE_OF, COMPARISONS, Call, Case, Column, Expr, Literal
from midstream.plan.logic import negate

Rule = Callable[[str, tuple[Expr, ...]], Expr]

BOOLEAN, BIGINT, DOUBLE, VARCHAR = pa.bool_(), pa.int64(), pa.float64(), pa.string()

TRUNCATIONS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""Units DATE_TRUNC knows."""


@dataclass(frozen=True)
class Function:
    """What a function takes and gives.

    `takes` names the kind of each parameter; `?` marks one that may be left out, `*` one that may be repeated.
    `gives` is the type of the result, or a rule that builds the result from the adapted arguments.
    """

    takes: str
    gives: pa.DataType | Rule

    def kinds(self, count: int) -> list[str] | None:
        """Return the kind of each of `count` arguments, or None when that is not how many the function takes."""
        kinds = self.takes.split()
        while kinds[-1].endswith("*") and len(kinds) < count:
            kinds.append(kinds[-1])
        least = sum(not k.endswith(("?", "*")) for k in kinds)
        return [k.rstrip("?*") for k in kinds[:count]] if least <= count <= len(kinds) else None

    @property
    def arity(self) -> str:
        """Say how many arguments the function takes."""
        kinds = self.takes.split()
        least = sum(not k.endswith(("?", "*")) for k in kinds)
        if kinds[-1].endswith("*"):
            return f"at least {least} argument{'s' if least != 1 else ''}"
        if least < len(kinds):
            return f"{least} or {len(kinds)} arguments"
        return f"{least} argument{'s' if least != 1 else ''}"


def _compare(name: str, args: tuple[Expr, ...]) -> Call:
    same = unify(args)
    if same is None:
        shown = f" {name.upper()} ".join(map(str, args)) if len(args) == 2 else f"{args[0]} IN (...)"
        raise PlanError(f"cannot compare {_types(args)}: {shown}")
    return Call(name, same, BOOLEAN)


def _types(args: Sequence[Expr]) -> str:
    return " with ".join(dict.fromkeys(type_name(a.type) for a in args))


def _same(name: str, args: tuple[Expr, ...]) -> Expr:
    same = unify(args)
    if same is None:
        raise PlanError(f"{name.upper()} needs values of one type, not {_types(args)}")
    return Call(name, same, same[0].type)


def _not(name: str, args: tuple[Expr, ...]) -> Expr:
    return negate(args[0])


def _if(name: str, args: tuple[Expr, ...]) -> Expr:
    return case([(args[0], args[1])], args[2])


def _null_if(name: str, args: tuple[Expr, ...]) -> Expr:
    value, condition = settle(args[0]), _compare("=", args)
    if isinstance(value, Column | Literal):
        return Case(((condition, Literal(None, value.type)),), value, value.type)
    return Call(name, (value, condition.args[1]), value.type)


def _date_trunc(name: str, args: tuple[Expr, ...]) -> Expr:
    unit, instant = args
    if not isinstance(unit, Literal) or str(unit.value).lower() not in TRUNCATIONS:
        raise PlanError(f"DATE_TRUNC takes one of {', '.join(TRUNCATIONS)}, not {unit}")
    return Call(name, (Literal(str(unit.value).lower(), VARCHAR), convert(instant, TIMESTAMP)), TIMESTAMP)


FUNCTIONS: dict[str, Function] = {
    # Comparison: NaN equals NaN and is greater than every number.
    **dict.fromkeys(COMPARISONS, Function("any any", _compare)),
    "is distinct from": Function("any any", _compare),  # never NULL
    "in": Function("any any any*", _compare),
    "is null": Function("any", BOOLEAN),  # never NULL
    "like": Function("text text text?", BOOLEAN),
    "ilike": Function("text text text?", BOOLEAN),
    # Logic: three-valued.
    "and": Function("condition condition*", BOOLEAN),
    "or": Function("condition condition*", BOOLEAN),
    "not": Function("condition", _not),
    # Arithmetic: rules in plan/arithmetic.py.
    "+": Function("any any", add),
    "-": Function("any any", subtract),
    "*": Function("any any", multiply),
    "/": Function("double double", DOUBLE),
    "%": Function("number number", remainder),
    "//": Function("integer integer", whole_quotient),
    "negate": Function("any", negative),
    # Numbers.
    "abs": Function("number", plain),
    "sign": Function("number", BIGINT),
    "round": Function("number integer?", rounded),
    "floor": Function("number", rounded),
    "ceil": Function("number", rounded),
    "sqrt": Function("double", DOUBLE),
    "power": Function("double double", DOUBLE),
    "exp": Function("double", DOUBLE),
    "ln": Function("double", DOUBLE),
    "log": Function("double double?", DOUBLE),  # base 10, or LOG(base, x)
    "log2": Function("double", DOUBLE),
    # Choice: NULL arguments are passed over.
    "coalesce": Function("any any*", _same),
    "least": Function("any any*", _same),
    "greatest": Function("any any*", _same),
    "nullif": Function("any any", _null_if),
    "if": Function("condition any any", _if),
    # Text, counted in characters from 1.
    "||": Function("shown shown", VARCHAR),
    "concat": Function("shown shown*", VARCHAR),  # passes over NULL
    "lower": Function("text", VARCHAR),
    "upper": Function("text", VARCHAR),
    "length": Function("text", BIGINT),
    "trim": Function("text text?", VARCHAR),
    "ltrim": Function("text text?", VARCHAR),
    "rtrim": Function("text text?", VARCHAR),
    "substring": Function("text integer integer?", VARCHAR),
    "left": Function("text integer", VARCHAR),
    "right": Function("text integer", VARCHAR),
    "replace": Function("text text text", VARCHAR),
    "split_part": Function("text text integer", VARCHAR),  # empty where there is no such part
    "starts_with": Function("text text", BOOLEAN),
    "ends_with": Function("text text", BOOLEAN),
    "contains": Function("text text", BOOLEAN),
    "strpos": Function("text text", BIGINT),
    "reverse": Function("text", VARCHAR),
    "lpad": Function("text integer text", VARCHAR),
    "rpad": Function("text integer text", VARCHAR),
    # Time, in UTC.
    **dict.fromkeys(
        (
            "year", "quarter", "month", "week", "day", "dayofyear", "dayofweek", "isodow",
            "hour", "minute", "second", "millisecond", "microsecond", "epoch_us",
        ),
        Function("instant", BIGINT),
    ),
    "epoch": Function("instant", DOUBLE),
    "date_trunc": Function("text instant", _date_trunc),
    "make_timestamp": Function("integer", TIMESTAMP),  # microseconds
    "to_timestamp": Function("double", TIMESTAMP),  # seconds
}  # fmt: skip

SYNONYMS = {
    "!=": "<>", "==": "=", "pow": "power", "mod": "%", "ceiling": "ceil", "log10": "log",
    "ifnull": "coalesce", "nvl": "coalesce", "iif": "if",
    "lcase": "lower", "ucase": "upper", "len": "length", "char_length": "length", "substr": "substring",
    "instr": "strpos", "prefix": "starts_with", "suffix": "ends_with",
    "dayofmonth": "day", "dow": "dayofweek", "doy": "dayofyear", "weekofyear": "week",
    "milliseconds": "millisecond", "microseconds": "microsecond", "years": "year", "months": "month", "days": "day",
    "hours": "hour", "minutes": "minute", "seconds": "second",
    "unix_micros": "epoch_us", "timestamp_micros": "make_timestamp", "datetrunc": "date_trunc",
}  # fmt: skip


def resolve(name: str, args: Sequence[Expr]) -> Expr:
    """Apply a function or operator to arguments, with the casts they need.

    >>> from midstream.plan.expr import Column
    >>> print(resolve("+", [Column("a", "x", pa.int64()), Column("a", "f", pa.float32())]))
    (CAST(a.x AS DOUBLE) + CAST(a.f AS DOUBLE))
    """
    key = SYNONYMS.get(name.lower(), name.lower())
    function = FUNCTIONS.get(key)
    if function is None:
        raise PlanError(f"there is no function '{name}'{closest(name, [*FUNCTIONS, *SYNONYMS])}")
    kinds = function.kinds(len(args))
    if kinds is None:
        raise PlanError(f"{name.upper()} takes {function.arity}, not {len(args)}")
    adapted = tuple(_adapt(name, kind, arg) for kind, arg in zip(kinds, args, strict=True))
    if callable(function.gives):
        return function.gives(key, adapted)
    return Call(key, tuple(settle(a) for a in adapted), function.gives)


def is_function(name: str) -> bool:
    """Tell whether the table has a function, under this or another name.

    >>> is_function("Len"), is_function("sum")
    (True, False)
    """
    return SYNONYMS.get(name.lower(), name.lower()) in FUNCTIONS


def closest(name: str, known: Sequence[str]) -> str:
    """Suggest the known name that looks most like an unknown one.

    >>> closest("lenght", ["length", "left"]), closest("zzz", ["length"])
    ("; did you mean 'length'?", '')
    """
    lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"; did you mean '{lower[near[0]]}'?" if near else ""


def case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Case:
    """Build CASE: conditions checked, values brought to one type."""
    conditions = [_adapt("CASE WHEN", "condition", condition) for condition, _ in branches]
    values = [*(value for _, value in branches), Literal(None, pa.null()) if otherwise is None else otherwise]
    same = unify(values)
    if same is None:
        raise PlanError(f"CASE needs values of one type, not {_types(values)}")
    return Case(tuple(zip(conditions, same[:-1], strict=True)), same[-1], same[0].type)


def case_of(subject: Expr, branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """Build CASE with a subject that is compared with each WHEN; one that is computed stands in it once.

    >>> from midstream.plan.expr import Column
    >>> x = Column("a", "x", pa.int64())
    >>> one, two = Literal(1, pa.int64()), Literal(2, pa.int64())
    >>> print(case_of(resolve("abs", [x]), [(one, two), (two, one)]))
    CASE ABS(a.x) WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE NULL END
    """
    conditions = [_compare("=", (subject, when)) for when, _ in branches]
    chosen = case([(c, value) for c, (_, value) in zip(conditions, branches, strict=True)], otherwise)
    if len(branches) == 1 or isinstance(subject, Column | Literal):
        return chosen
    pairs = [e for c, (_, value) in zip(conditions, chosen.branches, strict=True) for e in (c.args[1], value)]
    return Call(CASE_OF, (subject, *pairs, chosen.otherwise), chosen.type)


def between(value: Expr, low: Expr, high: Expr) -> Expr:
    """Build BETWEEN: two comparisons, in which a value that is computed stands once."""
    bounds = [_compare(">=", (value, low)), _compare("<=", (value, high))]
    if isinstance(value, Column | Literal):
        return Call("and", tuple(bounds), BOOLEAN)
    return Call(BETWEEN, (value, *(b.args[1] for b in bounds)), BOOLEAN)


def _adapt(name: str, kind: str, arg: Expr) -> Expr:
    """Bring one argument to the kind a parameter asks for."""
    t = arg.type
    null = pa.types.is_null(t)
    match kind:
        case "any":
            return arg
        case "number" if is_number(t) or null:
            return convert(arg, BIGINT) if null or pa.types.is_integer(t) else arg
        case "double" if is_number(t) or null:
            return convert(arg, DOUBLE)
        case "integer" if pa.types.is_integer(t) or null:
            return convert(arg, BIGINT)
        case "text" if pa.types.is_string(t) or null:
            return convert(arg, VARCHAR)
        case "shown" if t != INTERVAL:
            return convert(settle(arg), VARCHAR)
        case "condition" if pa.types.is_boolean(t) or null:
            return convert(arg, BOOLEAN)
        case "instant" if is_temporal(t) or null:
            return convert(arg, TIMESTAMP)
        case "instant" if isinstance(arg, Literal) and isinstance(arg.value, str):
            return convert(read_instant(arg.value), TIMESTAMP)
    wanted = {
        "number": "a number",
        "double": "a number",
        "integer": "an integer",
        "text": "VARCHAR",
        "condition": "a condition",
        "instant": "a date or timestamp",
    }
    raise PlanError(f"{name.upper()} takes {wanted.get(kind, 'a value')}, but {arg} is {type_name(t)}")
