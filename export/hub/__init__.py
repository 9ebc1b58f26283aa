"""Networks as repositories on the Hugging Face Hub: their files, card and upload."""
