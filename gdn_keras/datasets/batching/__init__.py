"""From arrays to batches for training: shuffled, augmented, resumable."""
