"""What the types of Spark mean to filters, and which of them are refused, by name and before a job starts."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.errors import PySparkTypeError, UnsupportedOperationException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField

from palio.errors import CallerError, DuplicateNameError, UnsupportedColumnError, brief

_SUPPORTED: tuple[type[DataType], ...] = (
    spark_types.StringType,
    spark_types.CharType,
    spark_types.VarcharType,
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
    spark_types.TimestampType,
    spark_types.BinaryType,
    spark_types.NullType,
)

_PLAIN_STRING = spark_types.StringType()
_REMEDIES = {
    "date": "a day is no instant; cast it to timestamp (its beginning in the session's time zone) or to string",
    "timestamp_ntz": "without a time zone it is no instant; cast it to timestamp, or to string",
    "array": "an attribute has one value; explode it, or join it to a string",
    "map": "an attribute has one value; select the entries that filters need as columns",
    "struct": "an attribute has one value; select its fields as columns",
    "variant": "its values have no one type; take what filters need with variant_get",
    "time": "a time of day is no instant; cast it to string, or to a number of seconds",
    "interval": "filters have no intervals; cast it to a number",
    "day": "filters have no intervals; cast it to a number",
    "year": "filters have no intervals; cast it to a number",
}


def check_columns(events: DataFrame, wanted: Collection[str]) -> list[str]:
    """The columns of the events that are wanted, in their order; those that cannot be attributes are refused."""
    found = [field for field in events.schema.fields if field.name in wanted]
    problems = [problem for field in found if (problem := _problem(field))]
    if problems:
        raise UnsupportedColumnError("; ".join(problems))
    return [field.name for field in found]


def check_names(events: DataFrame, *, tells_case: bool) -> None:
    """Refuse columns that Spark could not tell apart."""
    seen: dict[str, str] = {}
    for name in events.columns:
        folded = name if tells_case else name.lower()
        if folded in seen:
            raise DuplicateNameError(
                f"columns {brief(seen[folded])} and {brief(name)}: Spark cannot tell them apart; rename one"
            )
        seen[folded] = name


def check_kept(field: StructField) -> None:
    """Refuse to keep a column in a result that Arrow cannot carry to Python and back."""
    kind = field.dataType
    if isinstance(kind, spark_types.CharType | spark_types.VarcharType):
        return  # is handed back as a string
    try:
        if not isinstance(kind, spark_types.VariantType):
            to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, timezone="UTC")  # any zone will do
            return
    except (PySparkTypeError, UnsupportedOperationException, ValueError):
        pass
    raise UnsupportedColumnError(
        f"column {brief(field.name)} of type {brief(kind.simpleString())} cannot be kept in a result: Arrow cannot "
        "carry it; cast it to string, or drop it"
    )


def check_bodies(events: DataFrame, bodies: str) -> None:
    """Refuse a column of bodies that is not there or has another type."""
    field = column(events, bodies, "bodies")
    if not isinstance(field.dataType, spark_types.BinaryType):
        raise UnsupportedColumnError(
            f"column {brief(bodies)} of type {field.dataType.simpleString()}: encoded bodies are binary"
        )


def column(events: DataFrame, name: object, role: str) -> StructField:
    """The column that a caller has named."""
    for field in events.schema.fields:
        if field.name == name:
            return field
    known = ", ".join(events.columns[:12]) + (", ..." if len(events.columns) > 12 else "")
    raise CallerError(f"{role}: the events have no column {brief(name)}; they have {known}")


def _problem(field: StructField) -> str | None:
    if isinstance(field.dataType, _SUPPORTED):
        return None
    name = field.dataType.simpleString()
    kind = name.partition("<")[0].partition("(")[0].partition(" ")[0]
    remedy = _REMEDIES.get(kind, "cast it to string, or drop it")
    return f"column {brief(field.name)} of type {brief(name)}: {remedy}"


def without_collations(rows: DataFrame) -> DataFrame:
    """The same strings without collations, by which Spark would group, sort and compare them."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    collated = [
        name for name, kind in kinds.items() if isinstance(kind, spark_types.StringType) and kind != _PLAIN_STRING
    ]
    return rows.withColumns({name: quoted(name).cast(_PLAIN_STRING) for name in collated}) if collated else rows


def quoted(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return sql.col("`" + name.replace("`", "``") + "`")
