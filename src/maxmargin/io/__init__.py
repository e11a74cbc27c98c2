"""Files: data into a `Table` and back, and fitted models to and from files.

    read_table ── looks at the ending and the first line ──┬── read_csv ──────┐
                                                           ├── parse_parquet ─┴── columns: names, text, missing values
                                                           └── read_libsvm
    open_rows                                files that are read in parts, as often as a fit asks for them
    write_table                              a table as CSV, LIBSVM text or Parquet
    save, load                               a model with its certificate, as safetensors (`model_file`, `values`, `soundness`)
    read_libsvm_model, write_libsvm_model    LIBSVM's own model files
    to_onnx                                  a model, or a pipeline that ends in one, for ONNX runtimes

The rule of the room: a file is either read completely and exactly, or refused with a
`DataFileError` that names the file, the line and the way out. No value is guessed, dropped or
repaired unless the caller asks for it, and nothing that a file holds is run. Time and memory are in proportion to the size of
the file, whatever numbers it holds.

May not enter: solvers, numerics of any kind (scaling and imputing belong to a scikit-learn pipeline), private attributes of
estimators, and pandas.
"""

from maxmargin.io.choose import read_table
from maxmargin.io.columns import Columns
from maxmargin.io.delimited import read_csv
from maxmargin.io.libsvm import read_libsvm
from maxmargin.io.libsvm_model import is_libsvm_model, read_libsvm_model, write_libsvm_model
from maxmargin.io.model_file import load, save
from maxmargin.io.onnx_graph import register_onnx_converters, to_onnx
from maxmargin.io.rows import RowFiles, open_rows
from maxmargin.io.table import DataFileError, Table
from maxmargin.io.write import write_table

__all__ = [
    "Columns",
    "DataFileError",
    "RowFiles",
    "Table",
    "is_libsvm_model",
    "load",
    "open_rows",
    "read_csv",
    "read_libsvm",
    "read_libsvm_model",
    "read_table",
    "register_onnx_converters",
    "save",
    "to_onnx",
    "write_libsvm_model",
    "write_table",
]


def __dir__() -> list[str]:
    return __all__
