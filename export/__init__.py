"""Export networks: ONNX, SavedModel, LiteRT and the Hugging Face Hub, each checked first."""

DEFAULT_OPSET = 18  # of ONNX
