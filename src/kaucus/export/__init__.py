"""Export of fitted models: skops files, ONNX graphs, HTML reports; tables as input."""
