"""Networks in files of other formats: `onnx:FILE` and `tflite:FILE`."""
