"""Export networks: ONNX, SavedModel, LiteRT and the Hugging Face Hub, each checked first.

In a wheel it is `gdn_keras.export`; see `gdn_keras/parts.py`.
"""

DEFAULT_OPSET = 18  # of ONNX
PROGRAM = "python -m export" if __name__ == "export" else "gdn-keras export"
