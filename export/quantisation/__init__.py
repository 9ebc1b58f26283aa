"""Int8 versions of ONNX exports: how they are made, checked, and listed in docs/export.md."""
