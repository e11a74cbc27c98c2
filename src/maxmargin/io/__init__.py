"""Reading data files: CSV and LIBSVM text into a `Table` of features and labels.

    read_table ── looks at the ending and the first line ──┬── read_csv
                                                           └── read_libsvm

The rule of the room: a file is either read completely and exactly, or refused with a
`DataFileError` that names the file, the line and the way out. No value is guessed, dropped or
repaired. Time and memory are in proportion to the size of the file, whatever numbers it holds.

May not enter: estimators, kernels, solvers, numerics of any kind (scaling and imputing belong to a
scikit-learn pipeline), and pandas.
"""

from maxmargin.io.choose import read_table
from maxmargin.io.delimited import read_csv
from maxmargin.io.libsvm import read_libsvm
from maxmargin.io.table import DataFileError, Table

__all__ = ["DataFileError", "Table", "read_csv", "read_libsvm", "read_table"]
