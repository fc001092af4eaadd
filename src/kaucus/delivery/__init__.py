"""Export of fitted models: skops files, ONNX graphs, HTML reports; tables as input."""

from kaucus.delivery._files import (
    ModelFile,
    ModelFileError,
    check_output,
    describe,
    load,
    replace_file,
    save,
    write_whole,
)
from kaucus.delivery._onnx_export import to_onnx
from kaucus.delivery._onnx_graph import NotExportableError
from kaucus.delivery._onnx_pipelines import register_converters
from kaucus.delivery._report import Report, model_card, report
from kaucus.delivery._table_models import (
    TASKS,
    TIMES,
    Score,
    TableWriter,
    check_outputs,
    class_rows,
    fit_table,
    labels_of,
    make_table_pipeline,
    prediction_frame,
    score_of,
    score_predictions,
    task_of,
)
from kaucus.delivery._table_rows import (
    TableError,
    kind_of,
    read_chunks,
    read_table,
    target_of,
)
from kaucus.delivery._table_training import (
    TrainingTable,
    calibrate_intervals,
    column_kinds,
    judge_held_out,
    labelled_predictions,
    labelled_rows,
)
from kaucus.delivery._trusted import trusted_types

__all__ = [
    "ModelFile",
    "ModelFileError",
    "NotExportableError",
    "Report",
    "Score",
    "TASKS",
    "TIMES",
    "TableError",
    "TableWriter",
    "TrainingTable",
    "check_output",
    "check_outputs",
    "class_rows",
    "column_kinds",
    "describe",
    "fit_table",
    "calibrate_intervals",
    "judge_held_out",
    "kind_of",
    "labelled_predictions",
    "labelled_rows",
    "labels_of",
    "load",
    "make_table_pipeline",
    "model_card",
    "prediction_frame",
    "read_chunks",
    "read_table",
    "register_converters",
    "replace_file",
    "report",
    "save",
    "score_of",
    "score_predictions",
    "target_of",
    "task_of",
    "to_onnx",
    "trusted_types",
    "write_whole",
]
